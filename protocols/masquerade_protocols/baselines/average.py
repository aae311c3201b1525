"""``average``: a trusted entity adds noise to the mean of the parties' exact classifiers."""

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.statement import Claim
from masquerade_core.rng import Rng
from masquerade_core.study import Study, as_fraction
from masquerade_protocols.baselines.exact import individual
from masquerade_protocols.baselines.statement import average_statement
from masquerade_protocols.entry import Weights

__all__ = ["FRACTION_BITS", "average", "average_rate", "statement"]

FRACTION_BITS = 32  # F: noise is an integer vector in units of 2^-F
_ROOT_BITS = 64


def average_rate(study: Study) -> Fraction:
    """Return beta = eps/Delta of ``average``'s noise, with Delta = 2/(M lambda), or 2 sqrt2/(M lambda) for softmax.

    All records of one of M parties may change. They move its own classifier by at most 2/lambda (2 sqrt2/lambda), as
    one record of n would by an n-th of it, and the average by an M-th. sqrt2 is rounded up by a part in 2^64.

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
    """Add up what a trusted entity gets, and noise with density exp(-beta ||eta||_2), both in units of 2^-F."""
    mean = np.mean(list(individual(study, data, rng).values()), axis=0)
    unit = 1 << FRACTION_BITS
    eta = l2_laplace(rng, average_rate(study), len(mean), Fraction(unit))
    return np.array([(round(value * unit) + noise) / unit for value, noise in zip(mean.tolist(), eta, strict=True)])


def statement(study: Study) -> tuple[Claim, ...]:
    return average_statement(
        M=study.K,
        d=study.d * study.outputs,
        eps=study.privacy.epsilon,
        Lambda=study.model.regularization,
        loss=study.model.loss,
        classes=study.classes,
        Delta=float(as_fraction(study.privacy.epsilon) / average_rate(study)),
        fraction_bits=FRACTION_BITS,
    )
