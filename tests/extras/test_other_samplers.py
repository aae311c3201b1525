"""Our exact samplers beside those of OpenDP, which cannot be seeded."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from opendp import prelude as dp
from scipy import stats

from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.simulation_rng import SimulationRng
from tests.noise_helpers import P_ACCEPT, P_REJECT


@pytest.fixture(autouse=True)
def _features() -> Iterator[None]:
    """Switch on the functions of OpenDP that its authors have not yet proved, and off again."""
    dp.enable_features("contrib")
    try:
        yield
    finally:
        dp.disable_features("contrib")


def test_discrete_gaussian_noise_is_that_of_another_library() -> None:
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        theirs = dp.m.make_gaussian(*space, scale=6.0 * factor)([0] * 10_000)
        ours = discrete_gaussian(SimulationRng(22), Fraction(6), 10_000)
        table = np.array([np.bincount(np.clip(x, -18, 18) + 18, minlength=37) for x in (ours, theirs)])
        p = stats.chi2_contingency(table).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT


def test_discrete_laplace_noise_is_that_of_another_library() -> None:
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        theirs = dp.m.make_laplace(*space, scale=6.0 * factor)([0] * 40_000)
        ours = discrete_laplace(SimulationRng(7), Fraction(6), 40_000)
        table = np.array([np.bincount(np.clip(x, -30, 30) + 30, minlength=61) for x in (ours, theirs)])
        table = table[:, table.sum(axis=0) > 0]
        p = stats.chi2_contingency(table).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT
