"""Rajkumar and Agarwal's theorems for ``gop``, the minimiser that they are about."""

from masquerade_core.data.records import fewest_to_learn_from
from masquerade_core.learning.losses import loss_of
from masquerade_core.learning.theorems import FAILURE, Theorem, gaussian_norm, smoothness
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, sigma_star
from masquerade_core.study import Study
from masquerade_lab.baselines.gop import gop_perturbation
from masquerade_protocols.blocks.objective_theorems import objective_theorems, proved_excess

__all__ = ["theorems"]


def theorems(study: Study) -> tuple[Theorem, ...]:
    """Return the theorems, with what is proved for this study's own noise."""
    N, Lambda, d = fewest_to_learn_from(study), study.model.regularization, study.d
    if study.proven:
        # Two vectors of noise, and each may fail. The second moves the gradient by at most c + Lambda times its length.
        noise, length = gop_perturbation(study, N), gaussian_norm(d, FAILURE / 2)
        moved = smoothness(loss_of(study.model.loss), Lambda) * float(noise.output) * length * N
        proved = proved_excess(float(noise.sigma) * length + moved, N, Lambda, float(noise.Delta))
        return objective_theorems(
            study, proved, "The paper's is for the paper's sigma*, what is proved for this study's."
        )
    slack = compute_slack(study.privacy.epsilon, Lambda, N, loss_of(study.model.loss).c)
    sigma = sigma_star(d, slack.epsilon, study.privacy.delta)
    proved = proved_excess(sigma * gaussian_norm(d), N, Lambda, float(slack.Delta))
    return objective_theorems(study, proved, "Both are for the paper's noise.")
