"""``masquerade invite``: the coordinator invites the sites of a drafted study, and keeps its lobby open."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

__all__ = ["invite"]


def invite(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN",
            help="A draft of 'masquerade study new' with the names of the sites, but without their keys.",
            show_default=False,
        ),
    ],
    key: Annotated[
        Path, typer.Option("--key", help="Charlie's secret keys; made if missing.", show_default=False)
    ] = Path("charlie.key"),
    study: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the complete study. Its name and .toml, beside the plan, if not given.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[int, typer.Option(help="How long an invitation can be used.", min=1, max=365)] = 14,
    listen: Annotated[
        str | None,
        typer.Option(help="tcp://ADDRESS:PORT of this machine, if it is not the study's.", show_default=False),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Invite the sites of a study: print a line for each, wait until all have joined, and then run Charlie."""
    from masquerade.inviting import Inviting
    from masquerade.joining import keys_at
    from masquerade.lobby.links import keep_open
    from masquerade_host.process.process import stoppable

    del output_format
    keys, new = keys_at(key)
    inviting = Inviting.of(plan, keys, study, days, _say)
    _say(f"{'New' if new else 'The'} keys of Charlie are in {key}.")
    for name, invitation in inviting.invitations.items():
        typer.echo(invitation)
        _say(f"  send this line to {name}; it can be used until {invitation.day}")

    def began(address: str) -> None:
        _say(f"The lobby is open at {address}. Leave this running: Charlie starts when all have said yes.")

    with stoppable():
        keep_open(inviting.lobby, listen or inviting.address, keys, inviting.over, began)
    words = ["curator", str(inviting.path), "--key", str(key), *(["--listen", listen] if listen else [])]
    _say(f"starting: masquerade {' '.join(words)}")
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "masquerade", *words])  # noqa: S606
    raise AssertionError  # os.execv does not return


def _say(line: str) -> None:
    typer.echo(line, err=True)
