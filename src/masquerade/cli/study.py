"""``masquerade study``: write, check and explain the file that all participants agree on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome

if TYPE_CHECKING:
    from masquerade.draft import Draft
    from masquerade_core.identity import PublicKeys
    from masquerade_core.study import Study

__all__ = ["app"]

app = typer.Typer(help="Write, check and explain a study: the file that all participants agree on.")

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.", show_default=False)]


@app.command()
def new(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write. It must not exist.")],
    protocol: Annotated[
        str | None,
        typer.Option(
            help="The protocol, or a baseline for 'masquerade simulate'. If not given, the default, which the file "
            "names.",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(help="How many rounds, for a protocol with rounds. Its default if not given.", show_default=False),
    ] = None,
    name: Annotated[str, typer.Option(help="The study's name.")] = "my-study",
    party: Annotated[
        list[str] | None,
        typer.Option("--party", help="NAME, or NAME=PUBLICKEY. Give it once for each party.", show_default=False),
    ] = None,
    curator_key: Annotated[
        str | None, typer.Option(help="The public key of Charlie, the curator.", show_default=False)
    ] = None,
    address: Annotated[str, typer.Option(help="The address at which the parties reach Charlie.")] = (
        "tcp://127.0.0.1:5555"
    ),
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            help="A column and its public range: NAME:MIN:MAX, NAME:LEVEL,LEVEL,... or NAME:edges:EDGE,EDGE,... "
            "Give it once for each column. Write \\: or \\, for a colon or a comma inside a name or a level.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="The column to predict: NAME:POSITIVE or NAME:CLASS,CLASS,... Backslashes as in --feature.",
            show_default=False,
        ),
    ] = None,
    auxiliary: Annotated[
        Path | None,
        typer.Option(
            help="Public records (CSV) without a label, beside the study. Only some protocols learn from them.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The privacy target: the privacy that a record may lose.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The probability that epsilon does not hold.")] = 1e-6,
    calibration: Annotated[
        str | None,
        typer.Option(
            help="'paper': noise as in the paper. 'proven': as much as a proof needs. The protocol's default if not "
            "given.",
            show_default=False,
        ),
    ] = None,
    colluders: Annotated[int, typer.Option(help="How many parties may side with Charlie.", min=0)] = 0,
    min_records: Annotated[int, typer.Option(help="The fewest records that a party may have.")] = 100,
    lead: Annotated[
        str | None,
        typer.Option(
            help="The party that holds the secret key under which all encrypt. The first if not given.",
            show_default=False,
        ),
    ] = None,
    regularization: Annotated[
        float, typer.Option(help="Lambda, the weight of the penalty on the model's weights.")
    ] = 0.02,
    deadline: Annotated[float, typer.Option(help="How many seconds of silence end the run.")] = 600.0,
    key_bits: Annotated[int, typer.Option(help="2048 or 3072. Smaller keys serve simulations only.")] = 2048,
    throwaway_keys: Annotated[
        bool, typer.Option("--throwaway-keys", help="Put in keys that nobody holds: enough for 'masquerade simulate'.")
    ] = False,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Write the draft of a study: a commented file, with placeholders for keys that are not given."""
    from masquerade.columns import parse_feature, parse_label
    from masquerade.draft import Draft, auxiliary_file, throwaway_key
    from masquerade_core.identity import PublicKeys
    from masquerade_protocols import DEFAULT_PROTOCOL

    del output_format
    missing = throwaway_key if throwaway_keys else lambda: None
    extra: dict[str, Any] = {}
    if feature:
        extra["features"] = [parse_feature(text) for text in feature]
    if label:
        extra["label"] = parse_label(label)
    if auxiliary is not None:
        extra["auxiliary"] = auxiliary_file(auxiliary, extra.get("features", Draft.features))
    draft = Draft(
        parties=[(who, key or missing()) for who, key in map(_party, party or ["site-a", "site-b", "site-c"])],
        curator_key=PublicKeys.parse(curator_key) if curator_key else missing(),
        name=name,
        protocol=protocol or DEFAULT_PROTOCOL,
        rounds=rounds,
        address=address,
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,
        colluders=colluders,
        min_records=min_records,
        lead=lead,
        regularization=regularization,
        deadline_seconds=deadline,
        key_bits=key_bits,
        measured=True,
        **extra,
    )
    draft.write(output)
    examples = [*draft.examples, *(() if party else ("party",))]
    return Outcome(
        f"{output} is a study of {len(draft.parties)} parties"
        + ("" if draft.complete else ", with places left for keys")
        + _examples(draft, examples)
        + (f". Note: {note}" if (note := draft.proposal.note) else ""),
        {
            "file": str(output),
            "parties": [who for who, _ in draft.parties],
            "complete": draft.complete,
            "examples": examples,
        },
        hint=("replace the examples, " if examples else "")
        + f"read the file through, then run: masquerade study check {output}",
    )


def _examples(draft: "Draft", examples: list[str]) -> str:
    """Say which parts of a draft nobody asked for."""
    if not examples:
        return ""
    shown = {
        "feature": f"the columns {' and '.join(f.name for f in draft.features)}",
        "label": f"the label {draft.label.name}",
        "party": f"the parties {', '.join(who for who, _ in draft.parties)}",
    }
    options = " and ".join(f"no --{what}" for what in examples)
    return f". It holds examples, since {options} was given: " + "; ".join(shown[what] for what in examples)


@app.command()
def check(study: StudyArgument, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Check a study file, and say what is wrong with it."""
    from masquerade_core.data.auxiliary import load_study
    from masquerade_protocols import entry_of

    del output_format
    loaded, _ = load_study(study, in_memory=True)
    entry = entry_of(loaded)
    if entry.baseline:
        warning, hint = f"; {entry.name} is a baseline, for simulations only", "masquerade simulate --help"
    else:
        network = loaded.crypto.key_bits >= 2048  # noqa: PLR2004
        warning = "" if network else f"; with {loaded.crypto.key_bits}-bit keys it is for simulations only"
        hint = f"masquerade study show {study}"
    return Outcome(
        f"{study} is a valid study: {entry.name}, {loaded.K} parties, {loaded.d} coordinates, "
        f"epsilon = {loaded.privacy.epsilon:g}{warning}",
        _summary(loaded),
        hint=hint,
    )


@app.command()
def show(study: StudyArgument, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Explain a study in plain words: what leaves a party, who must not collude, what it costs, who takes part."""
    from masquerade.report import explained
    from masquerade_core.errors import BadInput
    from masquerade_protocols import entry_of

    del output_format
    loaded = _parsed(study)
    entry = entry_of(loaded)
    if entry.baseline:
        raise BadInput(
            f"{entry.name!r} is a baseline: one person holds everybody's records and nobody sends anything, so a party "
            "has nothing to agree to",
            f"see its privacy with 'masquerade statement {study}', or run it with 'masquerade simulate'",
        )
    explanation = entry.explain(loaded)
    return Outcome(
        f"study {loaded.study.name!r} in plain words",
        _summary(loaded)
        | {
            "leaves": list(explanation.leaves),
            "collusion": list(explanation.collusion),
            "cost": list(explanation.cost),
        },
        hint="compare the study's fingerprint, and each key's, with the others over the telephone",
        shown=explained(loaded, explanation),
    )


def _party(text: str) -> "tuple[str, PublicKeys | None]":
    from masquerade_core.errors import BadInput
    from masquerade_core.identity import PublicKeys

    name, given, key = text.partition("=")
    if not given:
        return name, None
    try:
        return name, PublicKeys.parse(key)
    except BadInput as error:
        raise BadInput(f"the key after --party {name}= {error.message}", error.hint) from error


def statement(study: StudyArgument, output_format: FormatOption = Format.TEXT) -> Outcome:
    """Say what the paper claims of a study and what is proved, for everybody who sees some of it. Nothing is run."""
    from masquerade.report import documentation, flags, heading, paragraphs
    from masquerade.report import statement as stated
    from masquerade_protocols import statement_of

    del output_format
    loaded = _parsed(study)
    rows = [claim.to_json() for claim in statement_of(loaded)]
    said = flags(loaded, rows)
    return Outcome(
        f"what is claimed and what is proved of study {loaded.study.name!r}",
        _summary(loaded) | {"statement": rows, "flags": said, "documentation": documentation()},
        shown=(*stated(rows, full=True), heading("Not to be overlooked"), paragraphs(said)),
    )


def _parsed(path: Path) -> "Study":
    """Read a study without its auxiliary records, which change nothing in what is said of it."""
    from masquerade_core.data.auxiliary import read_study_text
    from masquerade_core.study import Study

    return Study.parse(read_study_text(path), str(path), in_memory=True)


def _summary(study: "Study") -> dict[str, Any]:
    from masquerade.report import study_fingerprint

    return {
        "name": study.study.name,
        "fingerprint": study_fingerprint(study),
        "protocol": study.study.protocol,
        "n_parties": study.K,
        "n_features": study.d,
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
