"""The study that measures a model that exists: the model, and the participants of another study."""

from masquerade.draft import new_nonce
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Study
from masquerade_core.study.text import to_toml
from masquerade_protocols import MEASUREMENTS, Protocol, entry_of

__all__ = ["measuring_entry", "measuring_study"]

_LONGEST = 32  # characters of a study's name


def measuring_entry() -> Protocol:
    """Return the entry that measures a model."""
    return next(iter(MEASUREMENTS.values()))


def measuring_study(
    study: Study,
    model: SavedModel,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    threshold: str | float | None = None,
) -> Study:
    """Return a study that measures ``model`` on the records of a study's parties.

    Parameters
    ----------
    study : Study
        Its roster, its curator, its rules, and its privacy target where none is given.
    model : SavedModel
        It brings the columns, the label and the weights.
    epsilon, delta : float, optional
        The privacy target of the evaluation.
    threshold : str or float, optional
        The rule by which a threshold is chosen for the model: "youden", "f1", or a share of positive answers.

    Raises
    ------
    BadInput
        What was given makes no valid study.
    """
    entry, values = measuring_entry(), study.model_dump(mode="json", by_alias=True, exclude_none=True)
    values.pop("evaluation", None)
    values["study"] |= {
        "name": f"{study.study.name[: _LONGEST - len(entry.name) - 1]}-{entry.name}",
        "protocol": entry.name,
        "nonce": new_nonce(),
    }
    target = {"epsilon": epsilon, "delta": delta, "calibration": entry.default_calibration}
    values["privacy"] |= {key: value for key, value in target.items() if value is not None}
    values["model"] |= {"loss": model.loss, "intercept": model.encoder.intercept}
    values["protocol"] = {
        "model_run": model.run_id,
        "weights": list(model.weights),
        "offset": list(model.offset),
        **({"threshold": model.threshold} if model.threshold else {}),
        **({} if threshold is None else {"choose": threshold}),
    }
    values["label"] = model.label.model_dump(mode="json", exclude_none=True)
    values["feature"] = [f.model_dump(mode="json", exclude_none=True) for f in model.encoder.features]
    made = Study.parse(to_toml(values), "the study that measures the model", in_memory=True)
    entry_of(made)
    return made
