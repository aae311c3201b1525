"""``masquerade study``: write, check and explain the file that all participants agree on."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade.cli.report import AuditOption, PictureOption, audit_of, written
from masquerade.cli.study_new import new
from masquerade_core.words import counted
from masquerade_host.process.options import StudyArgument

if TYPE_CHECKING:
    from masquerade_core.study import Study

__all__ = ["app", "parsed", "statement"]

app = typer.Typer(help="Write, check, explain and compare studies: the files that all participants agree on.")

app.command()(new)


class ShownAs(StrEnum):
    """The forms in which a study is explained."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


@app.command()
def check(study: StudyArgument, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Check a study file, list its faults, and estimate the quality of the model."""
    from rich.text import Text

    from masquerade.burden import burden_of
    from masquerade.report import size_of_record
    from masquerade_core.study_files import load_study
    from masquerade_protocols import entry_of

    del output_format
    loaded, _ = load_study(study, in_memory=True)
    entry = entry_of(loaded)
    if entry.baseline:
        warning, hint = f"; {entry.name} is a baseline, for simulations only", "masquerade simulate --help"
    else:
        network = loaded.crypto.sum == "masks" or loaded.key_bits >= 2048  # noqa: PLR2004
        warning = "" if network else f"; with {loaded.key_bits}-bit keys it is for simulations only"
        hint = f"masquerade study show {study}"
    valid = (
        f"{study} is a valid study: {entry.name}, {loaded.K} parties, {size_of_record(loaded)}, "
        f"epsilon = {loaded.privacy.epsilon:g}{warning}"
    )
    expected = entry.expectation(loaded) if entry.expectation else None
    burden = "" if entry.baseline else burden_of(entry.cost(loaded), loaded.K)
    told = [text for text in (expected.text if expected else "", burden) if text]
    return Outcome(
        valid,
        _summary(loaded) | {"expectation": expected.to_json() if expected else None, "burden": burden},
        hint=hint,
        shown=(Text(valid), *map(Text, told)) if told else (),
    )


@app.command()
def show(
    study: StudyArgument,
    state: Annotated[Path | None, typer.Option(help="The folder with your privacy budget.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="With --format html: the file. Stdout if not given.", show_default=False),
    ] = None,
    audit: AuditOption = None,
    picture: PictureOption = None,
    output_format: Annotated[
        ShownAs, typer.Option("--format", help="Words on stderr, JSON on stdout, or a page for signature.")
    ] = ShownAs.TEXT,
) -> Outcome:
    """Explain a study in plain words: what leaves a party, who must not collude, what it costs, who takes part."""
    from rich.text import Text

    from masquerade.budgeting import budget_line
    from masquerade.burden import burden_of
    from masquerade.report import explained, heading
    from masquerade_core.errors import BadInput
    from masquerade_host.store.state import state_folder
    from masquerade_party import code_in_words, code_of
    from masquerade_protocols import entry_of

    if output_format is not ShownAs.HTML and (out or audit or picture):
        raise BadInput("--out, --audit and --picture are for a page", "give --format html as well")
    loaded = parsed(study)
    code = code_of(loaded)
    entry = entry_of(loaded)
    if entry.baseline:
        raise BadInput(
            f"{entry.name!r} is a baseline: one person holds everybody's records and nobody sends anything, so a party "
            "has nothing to agree to",
            f"see its privacy with 'masquerade statement {study}', or run it with 'masquerade simulate'",
        )
    explanation, cost = entry.explain(loaded), entry.cost(loaded)
    expected = entry.expectation(loaded) if entry.expectation else None
    line = budget_line(state_folder(state), loaded, entry)
    if output_format is ShownAs.HTML:
        from masquerade.pages import signature_page
        from masquerade.pages.picture import read_picture

        page = signature_page(
            loaded,
            budget="" if line is None else _sentence(line.text),
            audit=audit_of(audit, {**_summary(loaded), "study": loaded.study.name}),
            pictures=[read_picture(path) for path in picture or ()],
        )
        return _page(page, out, loaded)
    budget = () if line is None else (heading("What is left of this machine's budget"), Text(_sentence(line.text)))
    whose = (heading("Whose code it runs"), *map(Text, code_in_words(loaded, code))) if code else ()
    return Outcome(
        f"study {loaded.study.name!r} in plain words",
        _summary(loaded)
        | {
            "leaves": list(explanation.leaves),
            "collusion": list(explanation.collusion),
            "cost": list(explanation.cost),
            "expectation": expected.to_json() if expected else None,
            "burden": burden_of(cost, loaded.K),
            "budget": None if line is None else {"fits": line.fits, "text": line.text},
            "code": code or None,
        },
        hint="compare the study's fingerprint, and each key's, with the others over the telephone",
        shown=(*explained(loaded, explanation, cost, expected), *whose, *budget),
    )


def _page(page: str, out: Path | None, study: "Study") -> Outcome:
    """Write the page for signature, or let it go to stdout."""
    if out is None:
        return Outcome(f"study {study.study.name!r} for signature", stdout=page)
    written(out, page)
    return Outcome(f"{out}: study {study.study.name!r}, for signature", hint=f"open {out} in a browser, and print it")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A study file.", show_default=False)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another one.", show_default=False)],
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Describe the changes from one study to another: first those of the noise, then those of the participants."""
    from masquerade.study_diff import changes, diff_shown

    del output_format
    before, after = parsed(old), parsed(new)
    found = changes(before, after)
    count = counted(len(found), "change")
    return Outcome(
        f"{count} from {old} to {new}" if found else f"{old} and {new} hold one study",
        {
            "old": before.fingerprint(),
            "new": after.fingerprint(),
            "changes": [change.to_json() for change in found],
        },
        hint=f"the new study has not been approved yet: masquerade approve {new}" if found else "",
        shown=diff_shown(before, after, found),
    )


def statement(study: StudyArgument, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Print the paper's claims and the proved guarantees of a study, for each observer. Nothing is run."""
    from masquerade.report import documentation, flags, heading, paragraphs
    from masquerade.report import statement as stated
    from masquerade_protocols import statement_of

    del output_format
    loaded = parsed(study)
    rows = [claim.to_json() for claim in statement_of(loaded)]
    said = flags(loaded, rows)
    return Outcome(
        f"what is claimed and what is proved of study {loaded.study.name!r}",
        _summary(loaded) | {"statement": rows, "flags": said, "documentation": documentation()},
        shown=(*stated(rows, loaded.privacy.epsilon, full=True), heading("Not to be overlooked"), paragraphs(said)),
    )


def parsed(path: Path) -> "Study":
    """Read a study without its auxiliary records, which change nothing in what is said of it.

    Raises
    ------
    BadInput
        There is no such file, or it holds no study.
    """
    from masquerade_core.study import Study
    from masquerade_core.study_files import read_study_text

    return Study.parse(read_study_text(path), str(path), in_memory=True)


def _summary(study: "Study") -> dict[str, Any]:
    from masquerade.report import study_fingerprint
    from masquerade_core.study.sections import DECLARED

    return {
        "name": study.study.name,
        "fingerprint": study_fingerprint(study),
        "protocol": study.study.protocol,
        "declared": study.study.model_dump(include=set(DECLARED), exclude_none=True),
        "n_parties": study.K,
        "n_features": len(study.features),
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
        "calibration": study.privacy.calibration,
        "lead": study.lead,
        "address": study.address,
        "curator": {"public_key": str(study.curator.key), "fingerprint": study.curator.key.fingerprint()},
        "parties": [
            {"name": p.name, "public_key": str(p.key), "fingerprint": p.key.fingerprint()} for p in study.parties
        ],
    }
