"""Pathak, Rane and Raj's Theorems 4.2 to 4.4 and inequalities (3) and (4), as printed and as they can be proved.

w^ is the average of the parties' classifiers, w^s the same with noise eta, and w* the classifier of all records. The
paper's lambda is half of our Lambda. n is the size of the smallest party, n_(1) in the paper.

**What is read otherwise.** The appendix with the proofs is not at hand, so each bound was derived again.

* Theorem 4.2 prints (K-1)/(n lambda). The lemma that it cites gives (K-1)/(K lambda): replacing a party's own records
  by everybody's changes the mean gradient by up to 2 (1 - n_j/N), however many records there are. The printed bound
  does not hold for parties whose records differ; a test has two of them. It held in every random split that we ran.
* J is (1/4 + 2 lambda)-smooth, as the penalty is lambda |w|^2. The paper prints lambda + 1, which is less where lambda
  exceeds 3/4.
* Theorem 4.4 charges delta once, for two events; its probability is 1 - 2 delta.
"""

import math

from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.learning.theorems import (
    FAILURE,
    Theorem,
    gamma_quantile,
    gaussian_norm,
    generalisation_term,
    laplace_norm,
    smoothness,
    zeros_excess,
)
from masquerade_core.privacy.noise.output_perturbation import classifier_norm_bound, paper_beta, paper_scale
from masquerade_core.study import Study
from masquerade_protocols.local_aggregation.noiseless import noise_length
from masquerade_protocols.local_aggregation.public import parameters_of

__all__ = [
    "inequality_3",
    "inequality_4",
    "proved_distance",
    "proved_excess",
    "theorem_4_2",
    "theorem_4_3",
    "theorem_4_4",
    "theorems",
]


def theorem_4_2(K: int, n: int, lam: float) -> float:
    """Return the printed bound on |w^ - w*|_2: (K-1)/(n lambda)."""
    return (K - 1) / (n * lam)


def inequality_3(K: int, n: int, lam: float) -> float:
    """Return the printed bound on J(w^) - J(w*): (K-1)^2 (lambda+1)/(2 n^2 lambda^2)."""
    return (K - 1) ** 2 * (lam + 1) / (2 * n**2 * lam**2)


def inequality_4(n: int, lam: float, d: int, eps: float, failure: float = FAILURE) -> float:
    """Return the printed bound on J(w^s) - J(w*) for one party: 2 d^2 (lambda+1) log^2(d/delta)/(n eps lambda)^2."""
    return 2 * d**2 * (lam + 1) / (n * eps * lam) ** 2 * math.log(d / failure) ** 2


def theorem_4_3(K: int, n: int, lam: float, d: int, eps: float, failure: float = FAILURE) -> float:
    """Return the printed bound on J(w^s) - J(w*): (3), (4), and 2 d (K-1) (lambda+1) log(d/delta)/(n^2 eps lambda^2).

    It is (lambda+1)/2 times the square of |w^ - w*| + |eta|, with the bounds of Theorem 4.2 and of Gamma(d)'s tail.
    """
    crossed = 2 * d * (K - 1) * (lam + 1) / (n**2 * eps * lam**2) * math.log(d / failure)
    return inequality_3(K, n, lam) + inequality_4(n, lam, d, eps, failure) + crossed


def theorem_4_4(K: int, n: int, N: int, lam: float, d: int, eps: float, failure: float = FAILURE) -> float:
    """Return the printed bound on the true excess risk: twice Theorem 4.3's, and 16 (32 + log(1/delta))/(lambda N)."""
    return 2 * theorem_4_3(K, n, lam, d, eps, failure) + generalisation_term(lam, N, failure)


def proved_distance(K: int, lam: float) -> float:
    """Return what is proved of |w^ - w*|_2 for any records: 2 R, as no classifier is longer than R.

    2 R is at most 1/(2 lambda), and so never more than the lemma's (K-1)/(K lambda) for two parties or more.
    """
    return 2 * classifier_norm_bound(2 * lam) if K > 1 else 0.0


def proved_excess(distance: float, noise: float, lam: float) -> float:
    """Return what is proved of J(w^s) - J(w*) for |w^ - w*| and |eta| at most these; J is (1/4 + 2 lambda)-smooth."""
    return smoothness(LOGISTIC, 2 * lam) / 2 * (distance + noise) ** 2


def theorems(study: Study) -> tuple[Theorem, ...]:
    """Return the theorems for a study in which every party has ``min_records`` records."""
    K, n, d, eps = study.K, study.study.min_records, study.d, study.privacy.epsilon
    N, Lambda = K * n, study.model.regularization
    lam = Lambda / 2
    distance, noise = proved_distance(K, lam), _noise_norm(study)
    alone = gamma_quantile(d) if _l2(study) else laplace_norm(d)
    alone *= float(1 / paper_beta(N, eps, Lambda) if _l2(study) else paper_scale(N, eps, Lambda))
    zeros = zeros_excess(LOGISTIC, Lambda)
    both = proved_excess(distance, noise, lam)
    return (
        Theorem(
            "Theorem 4.2",
            "|w^ - w*|, from the parties' average to the classifier of all records",
            theorem_4_2(K, n, lam),
            distance,
            classifier_norm_bound(Lambda),
            "The printed bound does not hold for parties whose records differ in kind: the lemma that it cites gives "
            "K where n_(1) is printed. What is proved holds for any records.",
        ),
        Theorem(
            "Theorem 4.3",
            "J(w^s) - J(w*), the excess risk on the training records",
            theorem_4_3(K, n, lam, d, eps),
            both,
            zeros,
            "The paper's is for the paper's noise, and rests on Theorem 4.2; what is proved is for this study's noise.",
        ),
        Theorem(
            "(3)", "J(w^) - J(w*), the same without noise", inequality_3(K, n, lam), proved_excess(distance, 0, lam),
            zeros, "It rests on Theorem 4.2.",
        ),
        Theorem(
            "(4)",
            "the excess risk if one party had all records",
            inequality_4(N, lam, d, eps),
            proved_excess(0, alone, lam),
            zeros,
            "Both are for the paper's noise.",
        ),
        Theorem(
            "Theorem 4.4",
            "the excess risk on fresh records",
            theorem_4_4(K, n, N, lam, d, eps),
            2 * both + generalisation_term(Lambda, N),
            zeros,
            f"Both hold with probability {1 - 2 * FAILURE:g}: training records and noise may each fail.",
        ),
    )  # fmt: skip


def _l2(study: Study) -> bool:
    return not study.proven and parameters_of(study).noise == "l2"


def _noise_norm(study: Study) -> float:
    """Return what |eta|_2 keeps within with probability 1 - ``FAILURE``, if all parties have ``min_records``."""
    n, d, eps, Lambda = study.study.min_records, study.d, study.privacy.epsilon, study.model.regularization
    if study.proven:
        return gaussian_norm(d) * noise_length(study, n) / math.sqrt(d)
    if _l2(study):
        return gamma_quantile(d) / float(paper_beta(n, eps, Lambda))
    return laplace_norm(d) * float(paper_scale(n, eps, Lambda))
