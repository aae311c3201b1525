"""Learning: losses, regularised empirical risk minimisation, sums of gradients, and classifiers of any kind."""

from masquerade_core.learning.erm import TOLERANCE, error_rate, fit, gradient_norm, predict_labels
from masquerade_core.learning.gradients import StepSizes, gradient_sum, step_sizes
from masquerade_core.learning.losses import LOGISTIC, LOSSES, SMOOTHED_HINGE, Loss, loss_of

__all__ = [
    "LOGISTIC",
    "LOSSES",
    "SMOOTHED_HINGE",
    "TOLERANCE",
    "Loss",
    "StepSizes",
    "error_rate",
    "fit",
    "gradient_norm",
    "gradient_sum",
    "loss_of",
    "predict_labels",
    "step_sizes",
]
