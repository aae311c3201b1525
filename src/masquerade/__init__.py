"""The public Python API: read a study, simulate it in one process, predict with a published model.

>>> import masquerade
>>> study, auxiliary = masquerade.load_study("study.toml", in_memory=True)
>>> data = masquerade.load_split("records.csv", study, "hospital")
>>> simulation = masquerade.simulate(study, data, auxiliary=auxiliary, seed=1)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from masquerade.prediction import Prediction, load_model, predict
    from masquerade.simulation import Simulation, load_named, load_split, simulate
    from masquerade.sweeps import simulate_many
    from masquerade_core.data.auxiliary import Auxiliary
    from masquerade_core.data.schema import Dataset
    from masquerade_core.errors import MasqueradeError
    from masquerade_core.study import Study
    from masquerade_core.study_files import load_study

__all__ = [
    "Auxiliary",
    "Dataset",
    "MasqueradeError",
    "Prediction",
    "Simulation",
    "Study",
    "load_model",
    "load_named",
    "load_split",
    "load_study",
    "predict",
    "simulate",
    "simulate_many",
]

# Imported at first use: 'masquerade --help' imports this package too, and must not wait for numpy.
_HOMES = {
    "Auxiliary": "masquerade_core.data.auxiliary",
    "Dataset": "masquerade_core.data.schema",
    "MasqueradeError": "masquerade_core.errors",
    "Prediction": "masquerade.prediction",
    "Simulation": "masquerade.simulation",
    "Study": "masquerade_core.study",
    "load_model": "masquerade.prediction",
    "load_named": "masquerade.simulation",
    "load_split": "masquerade.simulation",
    "load_study": "masquerade_core.study_files",
    "predict": "masquerade.prediction",
    "simulate": "masquerade.simulation",
    "simulate_many": "masquerade.sweeps",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
