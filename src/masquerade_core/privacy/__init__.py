"""Noise, its calibration, and what can be claimed and proved of it."""

from masquerade_core.privacy.calibration import eps_where_noise_is_small, paper_beta, paper_noise_norm, paper_scale
from masquerade_core.privacy.claims import Claim, local_aggregation_statement
from masquerade_core.privacy.mechanisms import (
    discrete_laplace,
    gaussian,
    gaussian_tail_bound,
    l2_laplace,
    l2_tail_bound,
    tail_bound,
)
from masquerade_core.privacy.objective import Slack, compute_slack, noise_sigma, sigma_share, sigma_star

__all__ = [
    "Claim",
    "Slack",
    "compute_slack",
    "discrete_laplace",
    "eps_where_noise_is_small",
    "gaussian",
    "gaussian_tail_bound",
    "l2_laplace",
    "l2_tail_bound",
    "local_aggregation_statement",
    "noise_sigma",
    "paper_beta",
    "paper_noise_norm",
    "paper_scale",
    "sigma_share",
    "sigma_star",
    "tail_bound",
]
