"""The release of ``evaluation`` without noise: the same model, since an evaluation changes no weight."""

from collections.abc import Mapping
from typing import Any

from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from masquerade_protocols.entry import Noiseless, Released
from masquerade_protocols.evaluation.roles import model_of

__all__ = ["noiseless"]


def noiseless(study: Study, _data: Mapping[str, Dataset], _released: Released, **_unused: Any) -> Noiseless:
    """Return the model that the study holds."""
    return Noiseless(model_of(study), "the model itself", 0.0, study.privacy.epsilon)
