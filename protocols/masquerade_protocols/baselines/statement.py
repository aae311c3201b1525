"""What is claimed and proved of the baselines with noise, for which one person holds everybody's records.

``central-dp`` is Kang, Liu and Wang's descent on pooled records: T rounds of Gaussian noise on a mean gradient that one
record moves by 2 G/n, for which their sigma is right. ``average`` is Hamm, Cao and Belkin's noisy mean of M classifiers
(Appendix B.4), whose unit is the party.
"""

import math
from fractions import Fraction

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, exact_mu, rounding_part
from masquerade_core.privacy.noise.votes import minimiser_radius
from masquerade_core.privacy.samplers.bits import TAIL_BITS
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.privacy.statement import NONE, PARTY_UNIT, Claim, digits

__all__ = [
    "ASSUMPTIONS",
    "average_statement",
    "central_dp_statement",
    "central_proven_statement",
    "record_statement",
    "wish",
]

_RECORD = "replace one record, all sizes fixed"
_PARTY = "replace all records of one party, the number of parties fixed"
_ITERATES = "released model and all iterates"
_SOURCE = "docs/privacy/weighted-dp.md: T Gaussian rounds compose exactly; Balle and Wang 2018, Theorem 8"
ASSUMPTIONS = (
    "records are encoded by public bounds and clipped to norm 1; nothing else was chosen by looking at them",
    "the model is released once; every further run over the same records adds its own epsilon",
)
"""What every proof of a record's privacy at a baseline rests on."""

_WHOEVER_COMPUTES = Claim(
    view="whoever computes it",
    unit="record",
    neighbours=_RECORD,
    definition=NONE,
    claimed="nothing: a trusted party holds everybody's records",
    provable=NONE,
    epsilon=None,
    delta=None,
    holds_at="no noise; it takes a protocol",
    source="by inspection",
    assumptions=(),
    text="A baseline has no table: one person holds all records.",
)


def record_statement(
    view: str,
    *,
    claimed: str,
    epsilon: float,
    delta: float,
    holds_at: str = "this noise",
    source: str,
    assumptions: tuple[str, ...] = ASSUMPTIONS,
    text: str,
) -> tuple[Claim, ...]:
    """Return the rows of a baseline whose release hides a record; the parameters are those of a :class:`Claim`."""
    return (
        Claim(
            view=view,
            unit="record",
            neighbours=_RECORD,
            definition="approximate",
            claimed=claimed,
            provable=f"epsilon = {digits(epsilon)}, delta = {digits(delta)}",
            epsilon=epsilon,
            delta=delta,
            holds_at=holds_at,
            source=source,
            assumptions=assumptions,
            text=text,
        ),
        _WHOEVER_COMPUTES,
        PARTY_UNIT,
    )


def wish(epsilon: float, delta: float) -> str:
    """Return what is claimed with ``calibration = "proven"``."""
    return f"approximate, epsilon = {epsilon:g}, delta = {delta:g}: the wish"


def central_dp_statement(
    *, d: int, eps: float, delta: float, c: float, G: Fraction, draws: int, fraction_bits: int
) -> tuple[Claim, ...]:
    """Return the statement for ``central-dp``.

    Parameters
    ----------
    d : int
        Coordinates.
    eps, delta : float
        The wish.
    c : float
        Of equation (3).
    G : Fraction
        Bound on a record's gradient.
    draws : int
        Vectors of noise; each is within total variation 2^-60 of its law.
    fraction_bits : int
        F of the grid 2^-F.
    """
    mu = exact_mu(c=c, epsilon=eps, delta=delta, part=1.0, rounding=rounding_part(d, fraction_bits, G))
    found = epsilon_of(mu, delta)
    lost = min(1.0, delta + draws * 2.0**-TAIL_BITS * (1 + math.exp(min(found, 700.0))))
    doubt = "" if c >= C_OF_THE_PROOF else f"; its proof needs c >= {C_OF_THE_PROOF}, and c is {c:g}"
    return record_statement(
        _ITERATES,
        claimed=f"approximate, epsilon = {eps:g}, delta = {delta:g} (Theorem 1){doubt}",
        epsilon=found,
        delta=lost,
        holds_at=f"c = {digits(c * (mu / mu_of(eps, delta)) ** 2)}",  # mu falls with the root of c
        source=_SOURCE,
        text="One record moves the mean gradient of all n by 2 G/n, which is what the paper's sigma is sized for.",
    )


def central_proven_statement(*, epsilon: float, delta: float) -> tuple[Claim, ...]:
    """Return the statement for ``central-dp`` with ``calibration = "proven"``."""
    return record_statement(
        _ITERATES,
        claimed=wish(epsilon, delta),
        epsilon=epsilon,
        delta=delta,
        source=_SOURCE,
        text="T rounds of noise on the sum of all records' gradients, which one of them moves by 2 G.",
    )


def average_statement(
    *, M: int, d: int, eps: float, Lambda: float, loss: str, classes: int | None, Delta: float, fraction_bits: int
) -> tuple[Claim, ...]:
    """Return the statement for ``average``.

    No minimiser is longer than R, so that one party's moves the mean by 2 R/M at most; and by 2/(M Lambda), or 2
    sqrt2/(M Lambda) for softmax, as the paper has it. What is proved is the smaller, with inexact minimisers and
    rounding counted, over the Delta that the noise was made for.

    Parameters
    ----------
    M, d : int
        Parties; all weights of a classifier.
    eps : float
        The wish.
    Lambda : float
        The paper's lambda.
    loss : str
        By its name.
    classes : int or None
        Of softmax.
    Delta : float
        The paper's.
    fraction_bits : int
        F of the grid 2^-F.
    """
    sharp = 2 * minimiser_radius(loss=loss, classes=classes, Lambda=Lambda) / M
    moved = min(Delta, sharp) + 2 * TOLERANCE / (Lambda * M) + math.sqrt(d) * 2.0**-fraction_bits
    found = eps * moved / Delta * (1 + 1e-12)
    lost = min(1.0, 2.0**-L2_TV_BITS * (1 + math.exp(min(found, 700.0))))
    return (
        Claim(
            view="released model",
            unit="party",
            neighbours=_PARTY,
            definition="approximate",
            claimed=f"pure, epsilon = {eps:g}, with a trusted party (Appendix B.4)",
            provable=f"epsilon = {digits(found)}, delta = {lost:.1e}",
            epsilon=found,
            delta=lost,
            holds_at=f"Delta = {digits(moved)}, where the paper has {digits(Delta)}",
            source="docs/privacy/voting.md",
            assumptions=ASSUMPTIONS,
            text="However different a party's records are, its classifier is no longer than a bound: with a small "
            "regularization that is far less than the paper counts.",
        ),
        _WHOEVER_COMPUTES,
    )
