"""Where a model comes from and what is promised of it: what travels with the model into every file that is made of it.

It is one JSON object. An ONNX file has it in its metadata, a skops file in an attribute of the pipeline, and a model
card in a block of its own. :func:`Provenance.from_json` reads it back from each.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from masquerade_core import __version__
from masquerade_core.bounded import json_of
from masquerade_core.coefficients import Coefficients
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput
from masquerade_core.learning.losses import LOSSES
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Label

__all__ = ["ATTRIBUTE", "KIND", "Provenance"]

KIND = "masquerade provenance 1"
ATTRIBUTE = "masquerade"
"""The key of an ONNX file's metadata that holds it; the attribute of a pipeline is this and an underscore."""

_ESTIMATE = ("value", "low", "high")
_STRANGE = "does not say which run of this program it comes from"
_HINT = "export the model.json of the run again"


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from and what is promised of it.

    Parameters
    ----------
    study, protocol, run_id : str
        The study's name, its protocol, and the run that made the model.
    epsilon, delta : float
        The study's privacy target.
    label : mapping
        The column to predict, as the study has it.
    encoder : mapping
        How raw columns become coordinates, as ``model.json`` has it.
    loss : str
        The loss that was minimised.
    threshold : float
        The score above which a record gets the positive label.
    statement : sequence of mapping, or None
        The rows of the run's privacy statement; None where the run's ``result.json`` did not lie beside the model.
    facts : mapping
        Further numbers of the run: the parties, the calibration, what an evaluation measured, and the coefficients of
        a regression.
    watermark : str
        What a simulation is marked with; empty for a run between machines.
    version : str
        The version of this program that wrote the file.
    """

    study: str
    protocol: str
    run_id: str
    epsilon: float
    delta: float
    label: Mapping[str, Any]
    encoder: Mapping[str, Any]
    loss: str
    threshold: float = 0.0
    statement: list[dict[str, Any]] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    watermark: str = ""
    version: str = __version__

    @classmethod
    def of(cls, model: SavedModel, watermark: str = "", result: Mapping[str, Any] | None = None) -> Self:
        """Return the provenance of a model, with what the run's ``result.json`` says where it is at hand."""
        kept = ("parties", "calibration", "evaluation", "metrics")
        return cls(
            study=model.study,
            protocol=model.protocol,
            run_id=model.run_id,
            epsilon=model.epsilon,
            delta=model.delta,
            label=model.label.model_dump(mode="json", exclude_none=True),
            encoder=model.encoder.to_json(),
            loss=model.loss,
            threshold=model.threshold,
            statement=None if result is None else list(result["statement"]),
            facts=({} if result is None else {key: result[key] for key in kept if result.get(key)})
            | ({} if model.coefficients is None else {"coefficients": model.coefficients.to_json()}),
            watermark=watermark or ("" if result is None else str(result.get("watermark", ""))),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {"kind": KIND, **asdict(self)}

    def text(self) -> str:
        """Return it as one line of JSON in ASCII."""
        return json.dumps(self.to_json(), allow_nan=False)

    @classmethod
    def from_text(cls, text: str, source: Path | str) -> Self:
        """Read what :meth:`text` wrote.

        Raises
        ------
        BadInput
            It is something else.
        """
        return cls.from_json(json_of(text, source, _HINT, _STRANGE), source)

    @classmethod
    def from_json(cls, data: Any, source: Path | str) -> Self:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        BadInput
            It is something else.
        """
        if not isinstance(data, dict) or data.get("kind") != KIND:
            raise BadInput(f"{source} {_STRANGE}", _HINT)
        try:
            found = cls(**{key: value for key, value in data.items() if key != "kind"})
            found.schema()
            LOSSES[found.loss]
            found.coefficients()
            fit = found._fits()
        except (AttributeError, BadInput, KeyError, TypeError, ValueError, ValidationError):
            fit = False
            found = None
        if not fit or found is None:
            raise BadInput(f"what {source} says of the run that it comes from has the wrong form", _HINT)
        return found

    def _fits(self) -> bool:
        """Say whether each field has its type, as far as anything else rests on it."""
        texts = (self.study, self.protocol, self.run_id, self.watermark, self.version)
        numbers = (self.epsilon, self.delta, self.threshold)
        shown = ("view", "unit", "adversary", "claimed", "provable")
        rows = [] if self.statement is None else self.statement
        evaluation = self.facts.get("evaluation") or {"records": 0}
        estimates = [evaluation.get(name) or {"value": None} for name in ("error", "auc")]
        numbers += (evaluation["records"], *(e[key] for e in estimates if e["value"] is not None for key in _ESTIMATE))
        return (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(number, int | float) for number in numbers)
            and all(isinstance(row[key], str) for row in rows for key in shown)
        )

    def coefficients(self) -> Coefficients | None:
        """Return the coefficients of a regression, where the model is one.

        Raises
        ------
        BadInput
            They do not have the form that this program writes.
        """
        if (found := self.facts.get("coefficients")) is None:
            return None
        return Coefficients.from_json(found, Encoder.from_json(self.encoder).names)

    def schema(self) -> tuple[Encoder, Label]:
        """Return the encoder and the label.

        Raises
        ------
        BadInput, ValidationError
            They do not have the form that this program writes.
        """
        return Encoder.from_json(self.encoder), Label.model_validate(dict(self.label))
