"""Noise, its calibration, and what can be claimed and proved of it."""

from masquerade_core.privacy.calibration import eps_where_noise_is_small, paper_beta, paper_noise_norm, paper_scale
from masquerade_core.privacy.claims import Claim, local_aggregation_statement
from masquerade_core.privacy.mechanisms import discrete_laplace, l2_laplace, l2_tail_bound, tail_bound

__all__ = [
    "Claim",
    "discrete_laplace",
    "eps_where_noise_is_small",
    "l2_laplace",
    "l2_tail_bound",
    "local_aggregation_statement",
    "paper_beta",
    "paper_noise_norm",
    "paper_scale",
    "tail_bound",
]
