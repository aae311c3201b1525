"""The protocols and the baselines as scikit-learn classifiers; every fit is a simulation, not a private release."""

from masquerade.estimators.base import SimulatedClassifier
from masquerade.estimators.baselines import GOP, Average, Batch, CentralDP, Individual, Pooled
from masquerade.estimators.glm import DPGLM
from masquerade.estimators.protocols import (
    PSGD,
    DecayingBudget,
    DPGradientDescent,
    DPWhitened,
    InputNoiseSGD,
    LocalAggregation,
    NoisyGradient,
    WeightedDP,
)
from masquerade.estimators.searching import CountedGridSearchCV, JointCost, joint_cost, search_cost
from masquerade.estimators.voting import SoftEnsemble, VoteEnsemble
from masquerade.estimators.warned import InvalidInput, PrivacyLeakWarning, SearchCostWarning

__all__ = [
    "DPGLM",
    "GOP",
    "PSGD",
    "Average",
    "Batch",
    "CentralDP",
    "CountedGridSearchCV",
    "DPGradientDescent",
    "DPWhitened",
    "DecayingBudget",
    "Individual",
    "InputNoiseSGD",
    "InvalidInput",
    "JointCost",
    "LocalAggregation",
    "NoisyGradient",
    "Pooled",
    "PrivacyLeakWarning",
    "SearchCostWarning",
    "SimulatedClassifier",
    "SoftEnsemble",
    "VoteEnsemble",
    "WeightedDP",
    "joint_cost",
    "search_cost",
]
