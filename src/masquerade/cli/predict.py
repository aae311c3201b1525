"""``masquerade predict``: labels for new records, by a published model."""

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

__all__ = ["predict"]

_PLURAL = {"probability": "probabilities", "margin": "margins"}


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model.json of a run.")],
    records: Annotated[
        Path, typer.Argument(metavar="RECORDS", help="New records (CSV or Parquet). They need no label.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file for the table, which else goes to stdout.")
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Label new records with a published model. The probability, or the margin w.x, is that of the positive label."""
    from masquerade.prediction import predict as labelled
    from masquerade_core.errors import BadInput

    del output_format
    prediction = labelled(model, records)
    label, words = prediction.model.label, prediction.words()
    what, scores = prediction.scores
    rows = zip(words, scores.tolist(), strict=True)
    table = f"{_cell(label.name)},{what}\n" + "".join(f"{_cell(word)},{score:.6f}\n" for word, score in rows)
    if output is not None:
        try:
            output.write_text(table, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{output} cannot be written: {error.strerror}", "choose another file") from error
    counts = {name: words.count(name) for name in prediction.names}
    meant = {"positive": label.positive} if label.classes is None else {"classes": label.classes}
    found = {"label": label.name, **meant, "records": len(words)}
    return Outcome(
        f"{len(words):,} records: "
        + ", ".join(f"{count:,} {name!r}" for name, count in counts.items())
        + (f", in {output}" if output else ""),
        {**found, "labels": prediction.labels.tolist(), _PLURAL[what]: [round(score, 6) for score in scores.tolist()]}
        if output is None
        else {**found, "file": str(output)},
        stdout="" if output else table,
    )


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n\r') else text
