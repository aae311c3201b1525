"""``masquerade keys``: a participant's keys, by which the others know it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from masquerade_core.identity import PublicKeys

__all__ = ["app"]

app = typer.Typer(help="Make a participant's keys, or show their public half.")


@app.command()
def new(
    file: Annotated[Path, typer.Argument(help="The file for the secret keys. Only you will be able to read it.")],
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Make a participant's keys. The public half goes to stdout."""
    from masquerade_host.keyfiles import make_keys

    del output_format
    return _outcome(make_keys(file).public, file, f"Your secret keys are in {file}: keep it, and show it to nobody.")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A file that 'masquerade keys new' made.")],
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Show the public half of a participant's keys, and its fingerprint."""
    from masquerade_host.keyfiles import load_keys

    del output_format
    return _outcome(load_keys(file).public, file, f"The public half of {file}:")


def _outcome(public: "PublicKeys", file: Path, message: str) -> Outcome:
    from rich.text import Text

    return Outcome(
        message,
        {"file": str(file), "public_key": str(public), "fingerprint": public.fingerprint()},
        hint="send the line that begins with mq1 to the study's coordinator, and compare the fingerprint by telephone",
        shown=(Text(message), Text.assemble("fingerprint  ", (public.fingerprint(), "bold"))),
        stdout=f"{public}\n",
    )
