"""``masquerade approve``: a person's yes to a study, written down."""

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_host.process.options import StateOption, StudyArgument
from masquerade_party.options import AcceptOption, PopulationOption, StreamOption

__all__ = ["approve"]


def approve(
    study: StudyArgument,
    data: Annotated[
        str | None,
        typer.Option(
            help="Your records (a file, folder or query). With them, the cost is reserved now, and their population is"
            " noted.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Your secret keys, which tell which party you are.", show_default=False)
    ] = None,
    participant: Annotated[
        str | None, typer.Option("--as", help="Instead of --key: which party you are.", show_default=False)
    ] = None,
    state: StateOption = None,
    population: PopulationOption = None,
    stream: StreamOption = None,
    accept: AcceptOption = None,
    by: Annotated[
        str | None, typer.Option(help="Your name, for the record. If not given, your user name.", show_default=False)
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            help="The fingerprint of the study that you have read, as 'masquerade study show' prints it. Then nothing "
            "is asked.",
            show_default=False,
        ),
    ] = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Approve a study: read it in plain words, say yes, and reserve its budget. Nothing is sent."""
    from masquerade_party import approve as ask_and_record

    del output_format
    done = ask_and_record(
        study,
        key_path=key,
        participant=participant,
        data_path=data,
        state=state,
        population=population,
        by=by,
        fingerprint=fingerprint,
        stream=stream,
        accept=tuple(accept or ()),
    )
    given = done.approval
    budget = "its budget is reserved" if done.reserved else "its budget is reserved when the run begins"
    return Outcome(
        f"{given.who} approved study {given.study!r} for {given.participant}; {budget}",
        {
            **given.model_dump(),
            "fingerprint": done.study.fingerprint(),
            "reserved": done.reserved,
            "beside": list(done.beside),
        },
        hint=f"take part: masquerade party {study} --approved --key KEY --data DATA",
    )
