"""Rajkumar and Agarwal's Theorems 5.1 and 5.3 and Proposition 5.2: how good an objective with Gaussian noise makes w.

The theorems are about ``gop``, the minimiser of J(w) + eta.w/N + (Delta/2) |w|^2 with eta ~ N(0, sigma*^2 I). The paper
expects them of ``psgd`` as well, which approaches that minimiser. lambda is our Lambda, c bounds phi'', and records lie
in the unit ball.

**What is read otherwise.**

* Theorem 5.1 asks that phi'(z) <= 1; its size is meant. It takes J to be (c + lambda)-smooth. Since J is
  lambda-strongly convex as well and grad J(w) = -eta/N, J(w) - J(w*) <= |eta|^2/(2 lambda N^2) holds, which is smaller
  by lambda/(c + lambda).
* Proposition 5.2 hides a constant in O(...). It is at most 100 + 20 eps~/(d log(1/delta)): sigma*^2 <= 4 (q^2 +
  eps~)/eps~^2, and a chi-square quantile is at most 5 d log(1/delta) for delta <= 1/e (Laurent and Massart).
* Theorem 5.3 has a constant kappa without a value, and says nothing of lambda. With lambda = tau/|w_0|^2 its own steps
  give kappa = 2112 for delta' <= 1/e: tau/4 for each of |eta|^2/(lambda N^2) and 16 (32 + log(1/delta'))/(lambda N),
  and tau/2 for (lambda/2) |w_0|^2. The second term in the maximum makes Delta = 0.
"""

import math

from masquerade_core.data.records import fewest_to_learn_from
from masquerade_core.learning.losses import loss_of
from masquerade_core.learning.theorems import (
    FAILURE,
    Theorem,
    gaussian_norm,
    generalisation_term,
    zeros_excess,
    zeros_loss,
)
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, sigma_star
from masquerade_core.study import Study

__all__ = [
    "KAPPA",
    "objective_theorems",
    "proposition_5_2",
    "proved_excess",
    "t_hat",
    "theorem_5_1",
    "theorem_5_3",
]

KAPPA = 2112.0
"""The kappa that Theorem 5.3's own steps need: 64 times 33."""


def t_hat(d: int, sigma: float, failure: float = FAILURE) -> float:
    """Return T^: |eta|^2 keeps within it with probability 1 - delta'."""
    return (sigma * gaussian_norm(d, failure)) ** 2


def theorem_5_1(T: float, N: int, lam: float, c: float) -> float:
    """Return the printed bound on J(w) - J(w*): (c + lambda) T^/(2 N^2 lambda^2). It asks for Delta = 0."""
    return (c + lam) * T / (2 * N**2 * lam**2)


def proposition_5_2(d: int, eps: float, delta: float, failure: float = FAILURE) -> float:
    """Return d^2 log(1/delta) log(1/delta')/eps~^2: T^ is at most a constant times that, for delta, delta' <= 1/e."""
    return d**2 * math.log(1 / delta) * math.log(1 / failure) / eps**2


def theorem_5_3(T: float, N: int, eps: float, c: float, kappa: float = KAPPA, failure: float = FAILURE) -> float:
    """Return the least tau for which N is enough, with |w_0| = 1: what w loses against w_0 on fresh records.

    N > kappa max(log(1/delta')/tau^2, c/(tau eps), T^(1/2)/tau), solved for tau.
    """
    return max(math.sqrt(kappa * math.log(1 / failure) / N), kappa * c / (N * eps), kappa * math.sqrt(T) / N)


def proved_excess(noise: float, N: int, lam: float, Delta: float = 0.0) -> float:
    """Return what is proved of J(w) - J(w*), for |eta| at most ``noise`` and any Delta.

    The gradient of J at w is -eta/N - Delta w, and |w| <= (1 + |eta|/N)/(lambda + Delta). J is lambda-strongly convex,
    so J(w) - J(w*) is at most the square of that gradient's length over 2 lambda.
    """
    length = noise / N
    return (length + Delta * (1 + length) / (lam + Delta)) ** 2 / (2 * lam)


def objective_theorems(study: Study, proved: float | None, why: str) -> tuple[Theorem, ...]:
    """Return the theorems for a study in which every party has ``min_records`` records.

    Parameters
    ----------
    study : Study
    proved : float or None
        What is proved of J(w) - J(w*) with this study's own noise.
    why : str
        For which model it is proved, or why nothing is.
    """
    loss, Lambda, privacy, d = loss_of(study.model.loss), study.model.regularization, study.privacy, study.d
    N, c = fewest_to_learn_from(study), float(loss.c)
    if not Lambda > 0 or not loss.convex:
        return (Theorem("Theorem 5.1", _EXCESS, None, note="It asks for a convex loss and a regularization above 0."),)
    slack = compute_slack(privacy.epsilon, Lambda, N, loss.c)
    eps = float(slack.epsilon)
    T = t_hat(d, sigma_star(d, eps, privacy.delta))
    order, most = proposition_5_2(d, eps, privacy.delta), 100 + 20 * eps / (d * math.log(1 / privacy.delta))
    # With Lambda = tau, Theorem 5.3's second condition leaves at least this of epsilon.
    left = privacy.epsilon * (1 - 2 / KAPPA)
    tau = theorem_5_3(t_hat(d, sigma_star(d, left, privacy.delta)), N, privacy.epsilon, c)
    fresh = None if proved is None else 2 * proved + generalisation_term(Lambda, N) + Lambda / 2
    return (
        Theorem(
            "Theorem 5.1",
            _EXCESS,
            theorem_5_1(T, N, Lambda, c) if slack.Delta == 0 else None,
            proved,
            zeros_excess(loss, Lambda),
            why if slack.Delta == 0 else f"It asks for Delta = 0; here Delta is {float(slack.Delta):.3g}. {why}",
        ),
        Theorem(
            "Proposition 5.2",
            "T^, of |eta|^2; the paper's is without the constant that O(...) hides",
            order if privacy.delta <= 1 / math.e else None,
            T,
            None,
            f"The constant is at least {T / order:.2g} here, and {most:.3g} is enough."
            if privacy.delta <= 1 / math.e
            else "It asks for delta <= 1/e.",
        ),
        Theorem(
            "Theorem 5.3",
            "the loss on fresh records, above that of any w_0 with |w_0| = 1",
            tau,
            fresh,
            zeros_loss(loss),
            f"The paper leaves kappa open; its steps give kappa = {KAPPA:g}, with regularization = tau. What is proved "
            f"is for this study's own. Both hold with probability {1 - 2 * FAILURE:g}.",
        ),
    )


_EXCESS = "J(w) - J(w*), the excess risk on the training records"
