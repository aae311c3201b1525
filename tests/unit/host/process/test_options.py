"""The options of the two processes: what the commands ask for, and the command lines that have them."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from masquerade.cli import app
from masquerade_curator.options import CuratorOptions
from masquerade_host.process.options import Options, asking
from masquerade_host.process.progress import Level
from masquerade_party.options import PartyOptions

EVERYBODYS: dict[str, Any] = {
    "study": Path("s.toml"),
    "key": Path("my key"),
    "out": Path("o"),
    "state": Path("--state"),
}
EVERYBODYS |= {"no_journal": True, "log_file": Path("l"), "log_level": Level.ERROR, "metrics": "0.0.0.0:9"}
PARTYS: dict[str, Any] = {"data": "sqlite:///a SELECT * FROM b", "classifier": "SVC(C=2.0)", "approved": True}
PARTYS |= {
    "population": "people",
    "stream": Path("t"),
    "accept": ["age", "sex"],
    "dask": "tls://d:1",
    "proxy": "http://u:p@h:1",
}
CURATORS: dict[str, Any] = {"test": Path("t.csv"), "listen": "tcp://0.0.0.0:1"}


def _read(options: type[Options], words: list[str]) -> Options:
    def play(chosen: Options) -> Options:
        return chosen

    command = typer.Typer(add_completion=False)
    command.command()(asking(options, play))
    read = command(words, standalone_mode=False)
    assert isinstance(read, options)
    return read


@pytest.mark.parametrize(("options", "own"), [(PartyOptions, PARTYS), (CuratorOptions, CURATORS)])
def test_a_command_line_is_read_as_the_options_that_it_was_written_for(
    options: type[Options], own: dict[str, Any]
) -> None:
    given = EVERYBODYS | own
    assert set(given) == {field.name for field in fields(options)}
    everything = options(**given)
    few = options(
        **{field.name: given[field.name] for field in fields(options) if field.name in ("study", "key", "data")}
    )
    assert _read(options, everything.words()) == everything
    assert _read(options, few.words()) == few
    assert len(few.words()) < len(everything.words())


@pytest.mark.parametrize(("name", "module"), [("party", "masquerade_party"), ("curator", "masquerade_curator")])
def test_the_command_and_the_module_ask_for_the_same_options(name: str, module: str) -> None:
    def asked(command: Any) -> dict[str, tuple[Any, ...]]:
        return {each.name: (each.opts, each.default, each.envvar, each.help) for each in command.params}

    ours = asked(get_command(app).get_command(None, name))  # type: ignore[attr-defined]  # it is a group
    theirs = asked(get_command(import_module(f"{module}.__main__").app))
    assert (ours.keys() - theirs.keys(), theirs.keys() - ours.keys()) == ({"output_format"}, {"progress", "debug"})
    assert [name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]] == []
