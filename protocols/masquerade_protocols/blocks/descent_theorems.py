"""Kang, Liu and Wang's Theorems 2 and 3: how good T steps of noisy descent make theta.

Both theorems print O(p G^2 log(1/delta) log(n)/(n^2 eps^2)). Their proofs give a number, inequality (11): with steps of
1/L and noise of variance sigma^2 on each coordinate of the gradient, L(theta_T) - L* is on average at most
(1 - lambda/L)^T (L(theta_0) - L*) + p sigma^2/(2 lambda). L is the smoothness and lambda the strong convexity of the
objective. Theorem 3 has mu of the Polyak-Lojasiewicz condition |grad L|^2 >= 2 mu (L - L*) in lambda's place.

**What is read otherwise.**

* The O(...) hides 1/lambda, L/lambda and the c of equation (3).
* The proof follows *one* descent on all records. Algorithm 1 averages m descents, each on its party's own records. Each
  of these comes near its own party's minimiser, and their average need not come near that of all records. So (11) is
  proved of ``central-dp``, and not of ``weighted-dp``: a test has two parties for which it fails.
"""

import math

from masquerade_core.learning.losses import Loss, loss_of
from masquerade_core.learning.theorems import Theorem, smoothness, zeros_excess, zeros_loss
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, descent_sigma
from masquerade_core.study import Study
from masquerade_protocols.blocks.local_descent import DescentParameters

__all__ = ["descent_theorems", "inequality_11", "order", "proved_average", "proved_descent"]


def inequality_11(start: float, T: int, p: int, sigma: float, lam: float, L: float) -> float:
    """Return (1 - lambda/L)^T (L(theta_0) - L*) + p sigma^2/(2 lambda), for ``start`` = L(theta_0) - L*."""
    return (1 - lam / L) ** T * start + p * sigma**2 / (2 * lam)


def order(p: int, G: float, delta: float, n: int, eps: float) -> float:
    """Return p G^2 log(1/delta) log(n)/(n^2 eps^2), what stands in O(...)."""
    return p * G**2 * math.log(1 / delta) * math.log(n) / (n * eps) ** 2


def proved_descent(start: float, T: int, eta: float, p: int, sigma: float, lam: float, L: float) -> float | None:
    """Return what is proved of the average L(theta_T) - L* after steps of eta; None for steps longer than 1/L.

    A step of eta <= 1/L takes the excess to (1 - eta lambda) of it, and the noise adds L eta^2 p sigma^2/2. The sum of
    all these is at most (1 - (1 - eta lambda)^T) L eta p sigma^2/(2 lambda). At eta = 1/L it is (11).
    """
    if eta > 1 / L:
        return None
    kept = (1 - eta * lam) ** T
    return kept * start + (1 - kept) * L * eta * p * sigma**2 / (2 * lam)


def proved_average(T: int, eta: float, p: int, sigma: float, lam: float, L: float, R: float) -> float | None:
    """Return what is proved of the average excess of a mean of local descents; None for steps beyond 2/(L + lambda).

    A step takes a descent's distance from its own minimiser to (1 - eta lambda) of it. Noise adds eta^2 p sigma^2 to
    the mean square. That minimiser lies within 2 R of the minimiser of all records, since no minimiser is longer than
    R. The square is convex, so it holds of the mean too, and the excess is at most L/2 times it.

    Parameters
    ----------
    T, eta, p, sigma, lam, L
        As in the other bounds; sigma is that of a party's own mean gradient.
    R : float
        No minimiser is longer.
    """
    if eta > 2 / (L + lam):
        return None
    kept = (1 - eta * lam) ** 2
    spread = math.sqrt(kept**T * R**2 + eta**2 * p * sigma**2 * (1 - kept**T) / (1 - kept))
    return L / 2 * (spread + 2 * R) ** 2


def _strong_convexity(loss: Loss, Lambda: float) -> float:
    """Return the lambda of the objective: Lambda, less by c where the loss is not convex. It may not be positive."""
    return Lambda - (0 if loss.convex else float(loss.c))


def descent_theorems(study: Study, chosen: DescentParameters, sigma: float, *, averaged: bool) -> tuple[Theorem, ...]:
    """Return both theorems for a study in which every party has ``min_records`` records.

    Parameters
    ----------
    study : Study
    chosen : DescentParameters
        Its ``[protocol]``.
    sigma : float
        The standard deviation of the study's own noise on a coordinate of the mean gradient: of all records, or of a
        party's where ``averaged``.
    averaged : bool
        Whether local descents are averaged; otherwise there is one descent on all records.
    """
    loss, Lambda, privacy, p, T = (
        loss_of(study.model.loss),
        study.model.regularization,
        study.privacy,
        study.d,
        chosen.rounds,
    )
    n, G = study.K * study.study.min_records, float(loss.L)
    c = C_OF_THE_PROOF if chosen.c is None else chosen.c
    papers = float(descent_sigma(c, loss.L, T, privacy.epsilon, privacy.delta, n))
    lam, L, eta = _strong_convexity(loss, Lambda), smoothness(loss, Lambda), chosen.learning_rate
    if not lam > 0:
        needed = p * papers**2 / (2 * zeros_loss(loss))
        said = (
            "The objective is not strongly convex, and no mu of the Polyak-Lojasiewicz condition is known for it. The "
            f"bound would say something only with mu above {needed:.3g}."
        )
        return tuple(Theorem(name, _EXCESS, None, note=said) for name in ("Theorem 2", "Theorem 3"))
    start = zeros_excess(loss, lam)
    R = min(G / lam, math.sqrt(2 * zeros_loss(loss) / lam))
    proved = (
        proved_average(T, eta, p, sigma, lam, L, R) if averaged else proved_descent(start, T, eta, p, sigma, lam, L)
    )
    paper = inequality_11(start, T, p, papers, lam, L)
    hidden = order(p, G, privacy.delta, n, privacy.epsilon)
    note = (
        f"The paper's is inequality (11), with steps of 1/L = {1 / L:.3g} and c = {c:g}; this study's steps are "
        f"{eta:g}. Without its constant, O(...) is {hidden:.3g}. Both are about "
        "the mean over the noise."
    )
    if averaged:
        note += " (11) follows one descent on all records; of an average of local descents the paper proves nothing."
    if proved is None:
        note += " This study's steps are too long for a proof."
    same = f"A strongly convex objective meets the Polyak-Lojasiewicz condition, with mu = {lam:.3g}."
    return (
        Theorem("Theorem 2", _EXCESS, paper, proved, start, note),
        Theorem("Theorem 3", _EXCESS, paper, proved, start, same),
    )


_EXCESS = "L(theta_T) - L*, the mean excess risk on the training records"
