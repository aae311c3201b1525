"""``masquerade predict``: labels for new records, by a published model."""

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from masquerade.faulty_records import BadRecords
    from masquerade.prediction import Prediction

__all__ = ["OnError", "predict"]

# With these a spreadsheet begins a formula, also where they are as wide as a Chinese character.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_PLURAL = {"probability": "probabilities", "margin": "margins", "estimate": "estimates"}


class OnError(StrEnum):
    """The treatment of records that cannot be labelled."""

    REFUSE = "refuse"
    SKIP = "skip"


def predict(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="The model.json of a run, its ONNX or skops form, or the run's folder."),
    ],
    records: Annotated[
        str, typer.Argument(metavar="RECORDS", help="New records (a file, folder or query). They need no label.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file for the table, which otherwise goes to stdout.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="A column of the records that the table repeats.")
    ] = None,
    each_class: Annotated[
        bool,
        typer.Option("--each-class", help="Print the probability or margin of every class, not only of the answer."),
    ] = False,
    on_error: Annotated[
        OnError, typer.Option(help="If some records do not fit: label none, or skip them and label the others.")
    ] = OnError.REFUSE,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Label new records with a published model. The probability, or the margin w.x, is that of the positive label."""
    from masquerade.faulty_records import BadRecords, reasons_of
    from masquerade.prediction import load_model
    from masquerade_core.errors import BadInput
    from masquerade_core.words import counted

    del output_format
    loaded = load_model(model)
    try:
        prediction = loaded.predict(records, on_error=on_error.value, ids=ids)
    except BadRecords as error:
        return _refused(error)
    label, words = prediction.model.label, prediction.words()
    table = _table(prediction, each_class=each_class)
    if output is not None:
        try:
            output.write_text(table, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{output} cannot be written: {error.strerror}", "choose another file") from error
    counts = {name: words.count(name) for name in prediction.names}
    meant = label.model_dump(mode="json", exclude_none=True, exclude={"name"})
    found: dict[str, Any] = {"label": label.name, **meant, "records": len(words)}
    if prediction.bad:
        found["bad"] = [{"place": record.place, "reasons": record.reasons} for record in prediction.bad]
    message = counted(len(words), "record")
    message += ": " + ", ".join(f"{count:,} {name!r}" for name, count in counts.items()) if counts else ""
    message += f"; no intervals: {prediction.no_intervals}" if prediction.no_intervals else ""
    message += f"; {len(prediction.bad):,} skipped" if prediction.bad else ""
    message += f", in {output}" if output else ""
    if loaded.provenance.watermark:
        found["watermark"] = loaded.provenance.watermark
        message += f". The model is of a {loaded.provenance.watermark}"
    return Outcome(
        message,
        {**found, **_numbers(prediction, each_class=each_class)} if output is None else {**found, "file": str(output)},
        stdout="" if output else table,
        shown=[f"skipped, {reason}" for reason in reasons_of(prediction.bad)] + [message] if prediction.bad else (),
    )


def _refused(error: "BadRecords") -> Outcome:
    """Return the outcome where no record was labelled, with all that do not fit."""
    return Outcome(
        error.message,
        {"bad": [{"place": record.place, "reasons": record.reasons} for record in error.bad]},
        hint=f"{error.hint}, with --on-error skip",
        error_code=error.error_code,
        exit_code=error.exit_code,
    )


def _scores(prediction: "Prediction", *, each_class: bool) -> "tuple[str, Any]":
    """Return a name for the numbers beside the labels, and the numbers: a column, or one for each class."""
    what, scores = prediction.scores
    if not each_class:
        return what, scores
    each = prediction.class_probabilities
    return what, prediction.margins if each is None else each


def _table(prediction: "Prediction", *, each_class: bool) -> str:
    """Return the table in CSV: a row for each record, with empty cells where a record was skipped."""
    import numpy as np

    what, scores = _scores(prediction, each_class=each_class)
    columns = [what] if scores.ndim == 1 else [f"{what} of {name}" for name in prediction.names]
    if prediction.model.label.number is not None:  # the first column has it
        columns, scores = [], np.empty((len(scores), 0))
    if prediction.intervals is not None:
        columns += ["low", "high"]
        scores = np.column_stack((scores, prediction.intervals))
    words = [_cell(word) for word in prediction.words()]
    numbers = [",".join(map(_number, row)) for row in scores.reshape(len(words), -1).tolist()]
    rows = [words, numbers]
    head = [_cell(prediction.model.label.name), *map(_cell, columns)]
    if prediction.ids is not None:
        rows.insert(0, [_cell(str(cell)) for cell in prediction.ids])
        head.insert(0, _cell(prediction.id_column))
    return ",".join(head) + "\n" + "".join(",".join(row) + "\n" for row in zip(*rows, strict=True))


def _numbers(prediction: "Prediction", *, each_class: bool) -> "dict[str, Any]":
    """Return the labels and numbers for JSON, which knows no NaN: a record that was skipped has null."""
    what, scores = _scores(prediction, each_class=each_class)
    bad = {record.row for record in prediction.bad}
    rounded = scores.round(6).tolist()
    labels = prediction.labels.tolist()
    found = {
        "labels": [None if i in bad else label for i, label in enumerate(labels)],
        _PLURAL[what]: [None if i in bad else row for i, row in enumerate(rounded)],
    }
    if prediction.intervals is not None:
        limits = prediction.intervals.round(6).tolist()
        found["intervals"] = [None if i in bad else row for i, row in enumerate(limits)]
    return found if prediction.ids is None else {"ids": [str(cell) for cell in prediction.ids], **found}


def _number(score: float) -> str:
    return "" if score != score else f"{score:.6f}"  # noqa: PLR0124  NaN alone differs from itself


def _cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula; a number stays as it is."""
    if text.startswith(_FORMULAS) and not _NUMBER.fullmatch(text):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',;\t"\n\r') else text
