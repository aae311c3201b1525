"""Gaussian objective perturbation: how much noise a proof needs, and what is provable; ``docs/privacy/gop.md``.

Rajkumar and Agarwal's sigma* bounds eta by its norm in all d coordinates. But a record, replaced, moves the gradient
within the plane of two vectors that are known beforehand; and where phi' has one sign, the worst two records lie
opposite each other, so that one number in R decides: N(0, 1) against N(2/sigma, 1). The noise that follows from that
does not depend on d.
"""

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of
from masquerade_core.privacy.statement import Claim, digits
from masquerade_protocols.baselines.statement import ASSUMPTIONS, record_statement, wish

__all__ = ["gop_statement", "proven_statement"]

_EXACT = (
    "the exact minimiser of an objective with continuous noise: a gradient norm of 1e-9 and the rounding of floats are "
    "not covered here"
)
_SOURCE = "docs/privacy/gop.md; Balle and Wang 2018, Theorem 8"


def gop_statement(*, epsilon: float, delta: float, slack: float, sigma: float) -> tuple[Claim, ...]:
    """Return the statement for ``gop`` with the paper's sigma*.

    Parameters
    ----------
    epsilon, delta : float
        The wish.
    slack : float
        Bound on s = log(1 + c/(N (Lambda + Delta))) for every N that there may be.
    sigma : float
        The smallest sigma* for such an N.
    """
    proved = slack + max(epsilon_of(2 / sigma, delta), 1 / sigma**2)
    return record_statement(
        "released model",
        claimed=f"probabilistic, epsilon = {epsilon:g}, delta = {delta:g} (Theorem 4.1)",
        epsilon=proved,
        delta=delta,
        holds_at='calibration = "proven", with far less noise',
        source=_SOURCE,
        assumptions=(*ASSUMPTIONS, _EXACT),
        text=f"Noise in {digits(sigma)} records' gradients hides one of them better than is claimed.",
    )


def proven_statement(*, epsilon: float, delta: float) -> tuple[Claim, ...]:
    """Return the statement for ``gop`` with ``calibration = "proven"``."""
    return record_statement(
        "released model",
        claimed=wish(epsilon, delta),
        epsilon=epsilon,
        delta=delta,
        source=_SOURCE,
        text="Noise in the objective, and a little on its minimiser, for what floating point leaves open.",
    )
