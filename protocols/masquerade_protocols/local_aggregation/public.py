"""The public numbers of ``local-aggregation``: its parameters, its noise, and how a vector lies in plaintexts.

Nothing here depends on any party's records, so every participant computes the same. Slots, and with them the lengths
of all messages, come from integers, fractions and correctly rounded arithmetic.
"""

from fractions import Fraction
from math import ceil, isqrt
from typing import Literal

from pydantic import BaseModel, ConfigDict

from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import check_regularization
from masquerade_core.learning.losses import require_convex
from masquerade_core.privacy.noise.joint_gaussian import MOST_COUNTED_RECORDS, JointNoise
from masquerade_core.privacy.noise.output_perturbation import paper_beta, paper_scale
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.discrete_laplace import tail_bound
from masquerade_core.privacy.samplers.l2_laplace import l2_tail_bound
from masquerade_core.study import Study

__all__ = [
    "FRACTION_BITS",
    "JOINT_FRACTION_BITS",
    "Parameters",
    "check",
    "fraction_bits",
    "joint_noise_of",
    "packing",
    "parameters_of",
    "selects",
]

FRACTION_BITS = 32
"""F of calibration "paper": weights and noise are integers in units of 2^-F."""

JOINT_FRACTION_BITS = 40
"""F of calibration "proven": so fine that rounding up a scale b, in units of 2^(20-F), costs little noise."""


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    Parameters
    ----------
    noise : str
        For calibration "paper". "laplace" is the paper's: independent Laplace noise on each coordinate. "l2" has the
        density exp(-beta |eta|_2) (Rajkumar and Agarwal 2012, footnote 2).
    scale : str
        For calibration "proven". "selected" sizes the noise for the smallest party: the paper's stages 1 and 2 find
        its size class, which is announced. "floor" sizes it for the public ``min_records``, and selects nothing.
    weights : str
        For calibration "proven". "uniform" counts each classifier once. "sizes" counts P_j's n_j times. Then the noise
        depends on no size, and ``scale`` has no effect.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    noise: Literal["laplace", "l2"] = "laplace"
    scale: Literal["selected", "floor"] = "selected"
    weights: Literal["uniform", "sizes"] = "uniform"


def parameters_of(study: Study) -> Parameters:
    """Return the ``[protocol]`` section, read."""
    return Parameters.model_validate(study.protocol)


def selects(study: Study) -> bool:
    """Return whether the run finds the smallest party: the noise is that party's, or is sized for it."""
    return not study.proven or joint_noise_of(study).scale_rule == "selected"


def fraction_bits(study: Study) -> int:
    """Return F of the grid 2^-F on which this study's run computes."""
    return JOINT_FRACTION_BITS if study.proven else FRACTION_BITS


def joint_noise_of(study: Study) -> JointNoise:
    """Return the noise of which each party draws a share, for calibration "proven"."""
    chosen = parameters_of(study)
    return JointNoise(
        scale_rule="sizes" if chosen.weights == "sizes" else chosen.scale,
        K=study.K,
        d=study.d,
        honest=study.honest,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        Lambda=study.model.regularization,
        min_records=study.study.min_records,
        fraction_bits=JOINT_FRACTION_BITS,
    )


def check(study: Study) -> None:
    """Refuse a study that is known to fail, before anybody joins.

    Raises
    ------
    BadInput
        Masks, ``weights`` or a ``scale`` with calibration "paper", ``noise`` with calibration "proven", a study for
        which there is no :func:`packing`, or a regularization with which training could fail for some records.
    """
    chosen = parameters_of(study)
    if study.crypto.sum == "masks":
        raise BadInput(
            '[crypto] sum is "masks", but local-aggregation adds up in shares of its own, and needs "paillier"',
            'set sum = "paillier", and name a lead in [study]',
        )
    scale = study.protocol.get("scale", "selected")  # the paper's own; there is no other for calibration "paper"
    if not study.proven and (scale, chosen.weights) != ("selected", "uniform"):
        raise BadInput(
            f'[protocol] has scale = "{scale}" and weights = "{chosen.weights}", but calibration = "paper" '
            'allows only scale = "selected" and weights = "uniform"',
            'set calibration = "proven", or remove scale and weights',
        )
    if study.proven and "noise" in study.protocol:
        raise BadInput(
            f'[protocol] noise is "{chosen.noise}", but with calibration = "proven" all noise is Gaussian',
            'remove noise, or set calibration = "paper"',
        )
    packing(study)
    check_regularization(study.model.regularization)


def packing(study: Study) -> Packing:
    """Lay out the vector whose sum is opened: slots as wide as public bounds require, never as wide as any data.

    The vector is a party's classifier with its noise; with ``weights = "sizes"``, n_j stands before it. The noise
    exceeds its bound only with a small chance, which the privacy statement counts in delta.

    Raises
    ------
    BadInput
        No plaintext has room for the noise; no noise meets the privacy target; the loss is not the logistic one, for
        which all bounds are worked out; or there is no regularization.
    """
    if study.model.loss != "logistic":
        msg = f"[model] loss is {study.model.loss!r}, but local-aggregation's bounds hold only for the logistic loss"
        raise BadInput(msg, 'set loss = "logistic"')
    require_convex(study.model)
    return _joint_packing(study) if study.proven else _paper_packing(study)


def _paper_packing(study: Study) -> Packing:
    """Lay out K w^s, the sum of K classifiers with K times the average's noise, bounded at ``min_records``."""
    weights = study.K * _grid_norm(study.model.regularization, FRACTION_BITS)
    scale = Fraction(study.K << FRACTION_BITS)
    floor, eps, lam = study.study.min_records, study.privacy.epsilon, study.model.regularization
    if parameters_of(study).noise == "laplace":
        noise = tail_bound(scale * paper_scale(floor, eps, lam), count=study.d)
    else:
        noise = l2_tail_bound(paper_beta(floor, eps, lam), study.d, scale)
    layout = Packing(study.d, weights + noise, study.key_bits)
    if not layout.fits:
        msg = f"this study's noise is too large for a key of {study.key_bits} bits"
        raise BadInput(msg, "choose a larger epsilon, regularization or min_records, or a longer key")
    return layout


def _joint_packing(study: Study) -> Packing:
    """Lay out the sum of K vectors with everybody's noise. Only noise too large for any use does not fit."""
    noise = joint_noise_of(study)
    by_size = noise.scale_rule == "sizes"
    counts = MOST_COUNTED_RECORDS if by_size else 1
    bound = study.K * counts * _grid_norm(study.model.regularization, JOINT_FRACTION_BITS)
    return Packing(study.d + by_size, bound + noise.largest, study.key_bits)


def _grid_norm(Lambda: float, fraction_bits: int) -> int:
    """Bound |w_j|_2 in units of 2^-F: at most sqrt(2 ln 2 / Lambda), since w_j costs no more than w = 0 does."""
    # 2 ln 2 < 1.3863; in integers, so that every machine lays out the same slots.
    square = Fraction(13863, 10000) / as_fraction(Lambda) * (1 << 2 * fraction_bits)
    return isqrt(ceil(square)) + 2
