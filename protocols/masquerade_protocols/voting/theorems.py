"""Hamm, Cao and Belkin's Lemma 6 and Theorem 4: how good noise on the classifier leaves it.

They are about ``soft``, where the noise has the density exp(-M lambda eps |x|/2). For ``vote`` the paper has the order
of the same bound alone, its (11); it is the bound with one party, M = 1. Both are for two classes.

R is the loss against the labels that the parties' votes give, with the penalty R^lambda. The theorem compares with
labels by vote, and not with true ones; the paper says so itself.

**What is read otherwise.** Nothing: both were derived again, and hold as they are printed. The length of the noise has
the law Gamma(d, 2/(M lambda eps)), of which d log(d/delta) is a loose quantile; what is proved takes the quantile.
"""

import math

from masquerade_core.learning.losses import loss_of
from masquerade_core.learning.theorems import (
    FAILURE,
    Theorem,
    gamma_quantile,
    generalisation_term,
    zeros_excess,
    zeros_loss,
)
from masquerade_core.study import Study
from masquerade_protocols.voting.public import beta, is_soft, parameters_of

__all__ = ["lemma_6", "lemma_6_softmax", "proved_excess", "theorem_4", "theorems"]


def lemma_6(M: int, d: int, lam: float, c: float, eps: float, failure: float = FAILURE) -> float:
    """Return the printed bound on R^lambda(w_p) - R^lambda(w_s): 2 d^2 (c + lambda) log^2(d/delta)/(lambda M eps)^2."""
    return 2 * d**2 * (c + lam) * math.log(d / failure) ** 2 / (lam * M * eps) ** 2


def lemma_6_softmax(M: int, classes: int, d: int, lam: float, eps: float, failure: float = FAILURE) -> float:
    """Return Lemma 6's bound as it reads for C named classes, which the paper leaves out.

    There are C d weights, the noise has the density exp(-M lambda eps |x|/sqrt 2), and softmax' risk is
    (1/2 + lambda)-smooth: the covariance of a label that is drawn has no eigenvalue above 1/2.
    """
    length = classes * d * math.sqrt(2) / (M * lam * eps) * math.log(classes * d / failure)
    return (0.5 + lam) / 2 * length**2


def theorem_4(
    M: int, N: int, d: int, lam: float, c: float, eps: float, length: float = 1.0, failure: float = FAILURE
) -> float:
    """Return what R(w_p) may exceed R(w_0) by, for a w_0 of this length.

    It is twice Lemma 6's bound, 16 (32 + log(1/delta_s))/(lambda N), and lambda/2 times the length squared.
    """
    return 2 * lemma_6(M, d, lam, c, eps, failure) + generalisation_term(lam, N, failure) + lam / 2 * length**2


def proved_excess(rate: float, d: int, lam: float, c: float, failure: float = FAILURE) -> float:
    """Return what is proved of R^lambda(w_p) - R^lambda(w_s), for noise of the density exp(-rate |x|_2)."""
    return (c + lam) / 2 * (gamma_quantile(d, failure) / rate) ** 2


def theorems(study: Study) -> tuple[Theorem, ...]:
    """Return the theorems; there are none for more than two classes."""
    if study.multiclass:
        return ()
    loss, lam, d, eps = loss_of(study.model.loss), study.model.regularization, study.d, study.privacy.epsilon
    c, N, M = float(loss.c), parameters_of(study).auxiliary.records, study.K if is_soft(study) else 1
    proved = None if study.proven else proved_excess(float(beta(study)), d, lam, c)
    fresh = None if proved is None else 2 * proved + generalisation_term(lam, N) + lam / 2
    whose = "" if is_soft(study) else "The paper states it for soft; for vote it is the same with M = 1, as in (11). "
    noise = (
        "Both are for the paper's noise on the classifier."
        if not study.proven
        else "The paper's noise is on the classifier, and this study's on the votes; of that nothing is proved here."
    )
    return (
        Theorem(
            "Lemma 6",
            "R^lambda(w_p) - R^lambda(w_s), what the noise adds to the risk on the auxiliary records",
            lemma_6(M, d, lam, c, eps),
            proved,
            zeros_excess(loss, lam),
            whose + noise,
        ),
        Theorem(
            "Theorem 4",
            "R(w_p) - R(w_0), on fresh records, for any w_0 with |w_0| = 1",
            theorem_4(M, N, d, lam, c, eps),
            fresh,
            zeros_loss(loss),
            f"{whose}Both hold with probability {1 - 2 * FAILURE:g}, and compare with labels by vote.",
        ),
    )
