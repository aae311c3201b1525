"""Every estimator is there, with every setting; ``tests/extras`` has scikit-learn's own checks of each."""

from __future__ import annotations

from typing import Any

from masquerade import estimators
from masquerade.estimators import SimulatedClassifier
from masquerade_protocols import BASELINES, PROTOCOLS, entry_named

# The checks fit some 100 times each. Fewer rounds and parties, and shorter keys, make that quick. The code is the same.
SETTINGS: dict[str, dict[str, Any]] = {
    "PSGD": {"rounds": 5},
    "NoisyGradient": {"rounds": 5},
    "DecayingBudget": {"rounds": 5},
    "DPGradientDescent": {"n_parties": 3},
    "DPWhitened": {"n_parties": 2},
    "InputNoiseSGD": {"n_parties": 3},
    "LocalAggregation": {"n_parties": 3, "key_bits": 512},
    "WeightedDP": {"rounds": 20},
    "CentralDP": {"rounds": 100},
    "SoftEnsemble": {"n_auxiliary": 50},
    "VoteEnsemble": {"n_auxiliary": 50},
}


def _classes() -> list[type[SimulatedClassifier]]:
    found = (getattr(estimators, name) for name in estimators.__all__)
    return [kind for kind in found if isinstance(kind, type) and SimulatedClassifier in kind.__mro__[1:]]


def test_every_protocol_with_a_model_and_every_baseline_has_one_estimator() -> None:
    learning = [entry.name for entry in (*PROTOCOLS.values(), *BASELINES.values()) if entry.makes_model]
    assert sorted(kind._protocol for kind in _classes()) == sorted(learning)


def test_an_estimator_takes_several_classes_where_its_study_does() -> None:
    for kind in _classes():
        entry = entry_named(kind._protocol)
        assert kind._several == (
            entry.multiclass if not entry.baseline else kind._protocol not in {"gop", "central-dp"}
        )


def test_an_estimator_has_every_setting_of_its_protocol_and_passes_it_on() -> None:
    for kind in _classes():
        settings = set(entry_named(kind._protocol).parameters.model_fields) - {"auxiliary"}
        assert set(kind._section) == settings
        assert settings <= set(kind._get_param_names())


ESTIMATORS = [kind(**SETTINGS.get(kind.__name__, {})) for kind in _classes()]
