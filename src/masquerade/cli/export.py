"""``masquerade export``: a released model in the forms that other programs read."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

__all__ = ["To", "export"]


class To(StrEnum):
    """The forms of a model, besides its ``model.json``."""

    ONNX = "onnx"
    SKOPS = "skops"
    CARD = "card"
    ALL = "all"


def export(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="The model.json of a run, an exported form of it, or the run's folder."),
    ],
    to: Annotated[
        To,
        typer.Option(
            help="onnx: a graph for any ONNX runtime. skops: a pipeline of scikit-learn. card: MODEL_CARD.md for "
            "people and hubs. all: these three in one folder."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write, or with '--to all' the folder; by default next to the model."
        ),
    ] = None,
    unconfirmed: Annotated[
        bool, typer.Option("--unconfirmed", help="Also export the model of an unconfirmed run.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Write a released model as ONNX, as a skops file, or as a model card. Raw records go in, as with 'predict'."""
    from masquerade.exports.writing import FILES, exported, forms_of, load_run
    from masquerade_core.errors import BadInput

    del output_format
    loaded, provenance = load_run(model, unconfirmed=unconfirmed)
    folder = model if model.is_dir() else model.parent
    if to is To.ALL:
        folder = output or folder
        forms = {form: folder / FILES[form] for form in forms_of(loaded)}
    else:
        forms = {form: output or folder / name for form, name in FILES.items() if form == to.value}
    for path in forms.values():
        if path.exists() and not force:
            raise BadInput(f"{path} is there already", "name another file with -o, or give --force to replace this one")
    contents = {path: exported(loaded, provenance, form) for form, path in forms.items()}
    for path, content in contents.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}", "choose another file with -o") from error
    said = [f"{path}: {len(content):,} bytes" for path, content in contents.items()]
    if provenance.watermark:
        said.append(f"marked in every file: {provenance.watermark}")
    if provenance.statement is None:
        said.append("without a privacy statement, since the run's result.json is not beside the model")
    found = {form: str(path) for form, path in forms.items()}
    return Outcome(
        "; ".join(said),
        {"files": found, "run_id": provenance.run_id, "statement": provenance.statement is not None}
        | ({"watermark": provenance.watermark} if provenance.watermark else {}),
    )
