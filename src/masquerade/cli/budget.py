"""``masquerade budget``: a site's privacy budget, what is spent of it, and what took it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_host.process.options import StateOption, StudyArgument

if TYPE_CHECKING:
    from masquerade_host.store.ledger import Account, Ledger
    from masquerade_host.store.state import StateFolder

__all__ = ["app"]

app = typer.Typer(help="A site's privacy budget: set its limit, and see how much each study has spent.")

_Population = Annotated[str, typer.Option(help="The people whose records share the budget.")]
_Epsilon = Annotated[
    float, typer.Option(help="The epsilon that all studies together may spend on a record.", show_default=False)
]
_Delta = Annotated[
    float, typer.Option(help="Their delta: less than 1 divided by the number of the records.", show_default=False)
]
_Party = Annotated[
    str | None,
    typer.Option("--as", help="Which party you are, if this machine plays several of them.", show_default=False),
]


@app.command()
def init(
    epsilon: _Epsilon,
    delta: _Delta,
    population: _Population = "default",
    basic_only: Annotated[
        bool,
        typer.Option(
            "--basic-only",
            help="Simply add costs. Fewer studies fit, but the proof holds no matter how they are chosen.",
        ),
    ] = False,
    state: StateOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Give a population its budget, once. Without a budget no study can run."""
    from masquerade_host.store.budget import give_budget

    del output_format
    folder = _folder(state)
    ledger = give_budget(folder, population, epsilon, delta, by=_user(), basic_only=basic_only)
    outcome = _told(ledger, f"the budget of {population!r} is in {folder.ledger}", (population,))
    return Outcome(
        outcome.message,
        outcome.data,
        hint="keep this folder out of backups: restoring an older copy of it would lose debits",
        shown=outcome.shown,
    )


@app.command()
def limit(
    epsilon: _Epsilon,
    delta: _Delta,
    population: _Population = "default",
    state: StateOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Change a population's limit. What is spent stays spent."""
    from masquerade_host.store.budget import set_limit

    del output_format
    ledger = _open(state)
    set_limit(ledger, population, epsilon, delta, by=_user())
    return _told(ledger, f"the limit of {population!r} was changed", (population,))


@app.command()
def show(
    population: Annotated[str | None, typer.Option(help="Only this population.", show_default=False)] = None,
    state: StateOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Show each population's budget: the limit, and how much is spent, reserved and left."""
    from masquerade_host.store.budget import populations

    del output_format
    ledger = _open(state)
    return _told(ledger, "the privacy budget", populations(ledger) if population is None else (population,))


@app.command()
def history(state: StateOption = None, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Show every entry of the ledger, oldest first: limits, data sets, reservations, attempts and debits."""
    from rich.text import Text

    del output_format
    entries = _open(state).history()
    lines = [f"{e.n:>5}  {e.at[:19]}  {_in_words(e.kind, dict(e.fields))}" for e in entries]
    data = [{"n": e.n, "kind": e.kind, "at": e.at, **e.fields} for e in entries]
    return Outcome(f"{len(entries)} entries", {"entries": data}, shown=(Text("\n".join(lines)),))


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="The file to write: one line of JSON for each entry.")],
    state: StateOption = None,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Write all entries to a file, for an auditor. It holds no record and no key."""
    import json

    from masquerade_core.errors import BadInput

    del output_format
    entries = _open(state).history()
    lines = (json.dumps({"n": e.n, "kind": e.kind, "at": e.at, **e.fields}, ensure_ascii=False) for e in entries)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in lines)
    except FileExistsError as error:
        raise BadInput(f"{file} exists already", "choose another file") from error
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}", "choose another file") from error
    return Outcome(f"{len(entries)} entries are in {file}", {"file": str(file), "entries": len(entries)})


@app.command()
def release(
    study: StudyArgument, party: _Party = None, state: StateOption = None, output_format: FormatOption = Format.TEXT
) -> Outcome:
    """Give up a study that will not run: its debits stay, and the rest of its reservation is free again."""
    from masquerade_core.errors import BadInput
    from masquerade_core.study import Study
    from masquerade_core.study_files import read_study_text
    from masquerade_host.store import budget

    del output_format
    loaded, ledger = Study.parse(read_study_text(study), str(study)), _open(state)
    mine = [party] if party is not None else list(budget.parties_of(ledger, loaded))
    if len(mine) != 1:
        found = "nobody" if not mine else "several parties: " + ", ".join(mine)
        raise BadInput(f"on this machine {found} has a reservation for {loaded.study.name}", "name the party with --as")
    population = budget.give_up(ledger, loaded.digest().hex(), mine[0], by=_user())
    return _told(ledger, f"{loaded.study.name} was given up", (population,))


@app.command()
def recover(state: StateOption = None, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Repair the ledger after an older copy was restored: add the entries that only its second file has."""
    from masquerade_host.store import budget

    del output_format
    folder = _folder(state)
    entered = budget.recover(folder)
    return Outcome(
        f"{entered} entries were entered again into {folder.ledger}",
        {"entered": entered},
        hint="find out who restored the older copy; a run that was in progress then must not continue",
    )


def _folder(state: Path | None) -> "StateFolder":
    from masquerade_host.store.state import state_folder

    return state_folder(state)


def _open(state: Path | None) -> "Ledger":
    from masquerade_host.store.ledger import Ledger

    return Ledger.open(_folder(state))


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"


def _told(ledger: "Ledger", message: str, populations: tuple[str, ...]) -> Outcome:
    from rich.text import Text

    accounts = [ledger.account(name) for name in populations]
    shown = (Text(message), *(Text(_paragraph(account)) for account in accounts))
    return Outcome(message, {"populations": [_json(account) for account in accounts]}, shown=shown)


def _paragraph(account: "Account") -> str:
    rows = [
        ("limit", f"epsilon = {account.epsilon:g}, delta = {account.delta:g}"),
        ("spent", _epsilon(account.spent)),
        ("with reservations", _epsilon(account.taken)),
        ("left", f"epsilon = {account.left:.4g}, delta = {account.delta_left:.3g}"),
        ("open studies", ", ".join(account.open_studies) or "none"),
    ]
    if account.basic_only:
        rows.append(("costs", "add up, and nothing better"))
    return "\n".join((account.population, *(f"  {name:<18} {value}" for name, value in rows)))


def _epsilon(value: float) -> str:
    return f"epsilon = {value:.4g}" if value < float("inf") else "more than the limit's delta"


def _json(account: "Account") -> dict[str, Any]:
    shown = vars(account) | {"open_studies": list(account.open_studies)}
    finite = {name: None if value == float("inf") else value for name, value in shown.items()}
    return dict(finite)


def _in_words(kind: str, fields: dict[str, Any]) -> str:
    from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS

    def cost(numbers: list[int]) -> str:
        mu = f", mu = {numbers[2] / UNITS:.4g}" if numbers[2] else ""
        return f"epsilon = {numbers[0] / UNITS:.4g}, delta = {numbers[1] / DELTA_UNITS:.3g}{mu}"

    words: dict[str, Callable[[], str]] = {
        "limit": lambda: (
            f"limit of {fields['population']}: {cost([fields['epsilon'], fields['delta'], 0])}, by {fields['by']}"
        ),
        "dataset": lambda: (
            f"data set {fields['fingerprint'][:16]} belongs to {fields['population']}, says {fields['by']}"
        ),
        "reserved": lambda: (
            f"{fields['name']} ({fields['study'][:16]}) as {fields['me']}: {cost(fields['whole'])} reserved, "
            f"approved by {fields['by']}"
        ),
        "attempt": lambda: f"{fields['study'][:16]} as {fields['me']}: attempt {fields['number']} begins",
        "debit": lambda: f"run {fields['run'][:16]}: {fields['label']}: {cost(fields['cost'])}",
        "ended": lambda: f"{fields['study'][:16]} as {fields['me']}: the attempt ended: {fields['why']}",
        "finished": lambda: f"{fields['study'][:16]} as {fields['me']}: finished",
        "released": lambda: f"{fields['study'][:16]} as {fields['me']}: given up by {fields['by']}",
    }
    return words[kind]()
