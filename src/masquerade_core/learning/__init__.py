"""Losses and regularised empirical risk minimisation."""

from masquerade_core.learning.erm import TOLERANCE, error_rate, fit, gradient_norm, predict_labels

__all__ = ["TOLERANCE", "error_rate", "fit", "gradient_norm", "predict_labels"]
