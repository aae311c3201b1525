"""``average``: a trusted person adds noise to the mean of the parties' exact classifiers."""

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.rng import Rng
from masquerade_core.study import Study
from masquerade_lab.baselines.exact import individual
from masquerade_protocols.entry import Weights

__all__ = ["FRACTION_BITS", "average", "average_rate"]

FRACTION_BITS = 32
"""F: noise is an integer vector in units of 2^-F."""

_ROOT_BITS = 64


def average_rate(study: Study) -> Fraction:
    """Return beta = eps/Delta of ``average``'s noise, with Delta = 2/(M lambda), or 2 sqrt2/(M lambda) for softmax.

    All records of one of M parties may change. That moves the party's own classifier by at most 2/lambda (2
    sqrt2/lambda for softmax), and the average by an M-th of it. sqrt2 is rounded up by a part in 2^64.

    References
    ----------
    Hamm, Cao, Belkin 2016: for softmax Appendix B.4, "the L2 sensitivity of the average parameters for multiclass
    logistic regression is 2 sqrt2/(M lambda)"; for two classes the same argument with section 2.2's bound.
    """
    two = Fraction(2)
    if study.multiclass:
        two *= Fraction(math.isqrt(2 << (2 * _ROOT_BITS)) + 1, 1 << _ROOT_BITS)
    return study.K * as_fraction(study.model.regularization) * as_fraction(study.privacy.epsilon) / two


def average(study: Study, data: Mapping[str, Dataset], rng: Rng) -> Weights:
    """Return the mean of the parties' classifiers under noise with density exp(-beta ||eta||_2).

    Mean and noise are integers in units of 2^-F.

    Parameters
    ----------
    study : Study
    data : mapping of str to Dataset
        Each party's records.
    rng : Rng
        The only source of randomness.
    """
    mean = np.mean(list(individual(study, data, rng).values()), axis=0)
    unit = 1 << FRACTION_BITS
    eta = l2_laplace(rng, average_rate(study), len(mean), Fraction(unit))
    return np.array([(round(value * unit) + noise) / unit for value, noise in zip(mean.tolist(), eta, strict=True)])
