"""One model in each of its forms, for writing them to files."""

from pathlib import Path
from typing import Any, Literal

from masquerade.exports.card import CARD, card_of
from masquerade.exports.onnx_file import to_onnx
from masquerade.exports.provenance import Provenance
from masquerade.exports.skops_file import to_skops
from masquerade.prediction import LoadedModel, load_model
from masquerade_core.bounded import MOST_OF_A_RUN, json_of, read_text
from masquerade_core.errors import BadInput
from masquerade_host.store.results import is_confirmed

__all__ = ["FILES", "Form", "exported", "load_run"]

Form = Literal["onnx", "skops", "card"]

FILES: dict[Form, str] = {"onnx": "model.onnx", "skops": "model.skops", "card": CARD}
"""The usual name of each form's file."""


def load_run(path: Path | str, *, unconfirmed: bool = False) -> tuple[LoadedModel, Provenance]:
    """Read a model, and what the ``result.json`` beside it says of the same run.

    Parameters
    ----------
    path : path
    unconfirmed : bool
        Whether a model is read of which nobody has confirmed that every party was told the same.

    Returns
    -------
    LoadedModel, Provenance
        The provenance has the run's privacy statement, if the file has it or ``result.json`` is there.

    Raises
    ------
    BadInput
        The model cannot be used as it is, or the run made none.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    result = _result(folder / "result.json")
    if path.is_dir() and result is not None and not (path / "model.json").exists():
        raise BadInput(
            f"the run in {path} made no model, since its protocol is {result.get('protocol')}",
            "only a model can be exported; result.json and the files beside it have what the run released",
        )
    model = load_model(path)
    if result is not None and result.get("run_id") == model.run_id and not (unconfirmed or is_confirmed(folder)):
        raise BadInput(
            f"the result in {folder} is not confirmed: Charlie's last frame is missing, so it is not confirmed that "
            "every party was told the same",
            "compare the folders of all participants with 'masquerade verify'; then export it with --unconfirmed",
        )
    provenance = model.provenance
    if provenance.statement is None and result is not None and result.get("run_id") == model.run_id:
        provenance = Provenance.of(model, provenance.watermark, result)
    return model, provenance


def _result(path: Path) -> dict[str, Any] | None:
    """Return the content of a ``result.json``; None where there is none that can be read."""
    try:
        found = json_of(read_text(path, MOST_OF_A_RUN, "result", ""), path, "")
    except BadInput:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("statement"), list) else None


def forms_of(model: LoadedModel) -> tuple[Form, ...]:
    """Return the forms that a model can have."""
    return tuple(form for form in FILES if form != "skops" or model.encoder.coding == "one-hot")


def exported(model: LoadedModel, provenance: Provenance, form: Form) -> bytes:
    """Return the content of a model's file in one of its forms.

    Raises
    ------
    BadInput
        It needs a package that is not installed.
    """
    if form == "card":
        return card_of(provenance).encode()
    if form not in forms_of(model):
        raise BadInput(
            "a model with regression coefficients has no skops form: scikit-learn has no intervals, and its pipelines "
            "would divide a record by its length",
            "export it as ONNX or as a card, or read model.json",
        )
    return to_onnx(model, provenance) if form == "onnx" else to_skops(model, provenance)
