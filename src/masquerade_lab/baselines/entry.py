"""The baselines: each is computed by one person who holds all parties' records, and nobody sends anything.

They show what a protocol's privacy and cryptography cost. They use the same losses, the same minimiser and the same
data as the protocols:

* ``gop``: noise in the objective. ``psgd`` approaches it.
* ``central-dp``: noise in every step. ``weighted-dp`` does the same at each party.
* ``pooled``, and ``batch`` under another paper's name: one classifier for all records, without privacy.
* ``individual``: one classifier for each party's own records, without privacy.
* ``average``: noise on the mean of these. ``vote`` and ``soft`` are meant to be better.

All but ``gop`` and ``central-dp`` also learn several named classes, by softmax regression.
"""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.statement import Claim
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_lab.baselines import (
    average,
    average_statement,
    central_dp,
    central_dp_statement,
    exact,
    gop,
    gop_statement,
)
from masquerade_protocols.blocks.local_descent import DESCENT_SECTION, STEPS_SECTION
from masquerade_protocols.entry import Protocol, Weights

__all__ = ["AVERAGE", "BATCH", "CENTRAL_DP", "GOP", "INDIVIDUAL", "POOLED", "NoParameters"]


class NoParameters(BaseModel):
    """An empty ``[protocol]`` section. Epsilon, delta, Lambda and the loss stand elsewhere in the study."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


def _no_statement(_study: Study) -> tuple[Claim, ...]:
    return ()


def _gop(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:
    return gop.gop(study, pool(study, data), rng)


def _central(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:
    return central_dp.central_dp(study, pool(study, data), rng)


GOP = Protocol(
    name="gop",
    paper="Rajkumar and Agarwal 2012, Algorithm 4",
    parameters=NoParameters,
    check=gop.check,
    statement=gop_statement.statement,
    central=_gop,
    calibrations=("paper", "proven"),
    regularization_note="the larger, the less the noise moves the model, and the simpler the model",
    theorems="masquerade_lab.baselines.gop_theorems",
)

CENTRAL_DP = Protocol(
    name="central-dp",
    paper="Kang, Liu and Wang, Theorem 1",
    parameters=central_dp.Parameters,
    check=central_dp.check,
    statement=central_dp_statement.statement,
    central=_central,
    section=DESCENT_SECTION,
    proven_section=STEPS_SECTION,
    calibrations=("paper", "proven"),
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
    theorems="masquerade_lab.baselines.central_dp_theorems",
)

POOLED = Protocol(
    name="pooled",
    paper="all: one classifier for everybody's records",
    parameters=NoParameters,
    check=exact.check_minimiser,
    statement=_no_statement,
    central=exact.pooled,
    regularization_note="the larger, the simpler the model; there is no noise",
)

INDIVIDUAL = Protocol(
    name="individual",
    paper="all: a classifier for each party's records",
    parameters=NoParameters,
    check=exact.check_minimiser,
    statement=_no_statement,
    central=exact.individual,
    regularization_note="the larger, the simpler the model; there is no noise",
)

BATCH = Protocol(
    name="batch",
    paper="Hamm, Cao and Belkin 2016, section 6: pooled",
    parameters=NoParameters,
    check=exact.check_minimiser,
    statement=_no_statement,
    central=exact.pooled,
    regularization_note="the larger, the simpler the model; there is no noise",
)

AVERAGE = Protocol(
    name="average",
    paper="Hamm, Cao and Belkin 2016, Appendix B.4",
    parameters=NoParameters,
    check=exact.check_minimiser,
    statement=average_statement.statement,
    central=average.average,
    regularization_note="the larger, the less noise, and the simpler the model",
)
