"""``masquerade study new``: write the draft of a study."""

from pathlib import Path
from typing import Annotated, Any

import typer

from masquerade.cli.output import Format, FormatOption, Outcome
from masquerade_core.words import DELTA

__all__ = ["new"]


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
    purpose: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Instead of --protocol: 'prediction' of new records, 'coefficients' of a regression with intervals, "
            "or 'statistics' of the columns.",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            help="The number of rounds, for a protocol with rounds. Its default if not given.", show_default=False
        ),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(
            help="The longest gradient that a record may contribute, for a protocol with a clip. Its default if not "
            "given.",
            show_default=False,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=VALUE: a setting of the protocol's section, such as learning_rate=2.5. Give it once for each.",
            show_default=False,
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            help="Another study. The new one has its columns, label, parties' names and settings, except for the "
            "options given here. Its nonce and keys are new.",
            show_default=False,
        ),
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option(
            "--measure",
            metavar="MODEL",
            help="With --like: measure this model.json on the records of the other study's parties. It is a release "
            "with its own cost. Only --epsilon, --delta and --threshold can be added.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="With --measure: choose a threshold for the model: youden, f1, or the share of positive answers, as "
            "in 0.1.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The study's name. 'my-study' if not given.", show_default=False)
    ] = None,
    party: Annotated[
        list[str] | None,
        typer.Option("--party", help="NAME, or NAME=PUBLICKEY. Give it once for each party.", show_default=False),
    ] = None,
    curator_key: Annotated[
        str | None, typer.Option(help="The public key of Charlie, the curator.", show_default=False)
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="The address at which the parties reach Charlie. tcp://127.0.0.1:5555 if not given.",
            show_default=False,
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            help="A column and its public range: NAME:MIN:MAX, NAME:LEVEL,LEVEL,... or NAME:edges:EDGE,EDGE,... "
            "Give it once for each column. Write \\: or \\, for a colon or a comma inside a name or a level: "
            "'job:a\\,b,c' has the levels 'a,b' and 'c'. The level ? is for missing values, and empty cells count as "
            "it.",
            show_default=False,
        ),
    ] = None,
    features_from: Annotated[
        Path | None,
        typer.Option(
            help="A file that names the columns: a codebook (CSV with the columns name, min, max, levels), "
            "feature blocks (TOML), or a table of records (CSV or Parquet). From a table only the names are read, and "
            "--feature gives the ranges.",
            show_default=False,
        ),
    ] = None,
    from_public_sample: Annotated[
        bool,
        typer.Option(
            "--from-public-sample",
            help="The records in the file of --features-from are public: read bounds and levels from them. Never do "
            "that with private records.",
        ),
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of the file of --features-from, or of --like, to leave out. Give it once for each.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="The column to predict: NAME:POSITIVE, NAME:CLASS,CLASS,..., or NAME:MIN:MAX where it is a number. "
            "Backslashes as in --feature.",
            show_default=False,
        ),
    ] = None,
    auxiliary: Annotated[
        Path | None,
        typer.Option(
            help="Public records (CSV) without a label, next to the study file. Only some protocols learn from them.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The privacy target: the odds of a guess about a record change by at most e^EPSILON. 1 if not given.",
            show_default=False,
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help=f"{DELTA.capitalize()}. 1e-6 if not given.", show_default=False),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            help="'proven': as much noise as a proof needs for the privacy target. 'paper': noise as in the paper, for "
            "reproducing it. 'proven' wherever the protocol has it, if not given.",
            show_default=False,
        ),
    ] = None,
    colluders: Annotated[
        int | None,
        typer.Option(
            help="The number of parties that may side with Charlie. If not given, 1 with noise that is proven, and 0 "
            "with the "
            "noise of a paper.",
            min=0,
            show_default=False,
        ),
    ] = None,
    min_records: Annotated[
        int | None,
        typer.Option(help="The minimum number of records of a party. 100 if not given.", show_default=False),
    ] = None,
    expected_records: Annotated[
        int | None,
        typer.Option(help="The expected number of records of all parties together; public.", show_default=False),
    ] = None,
    lead: Annotated[
        str | None,
        typer.Option(
            help="With --sum paillier: the party that holds the secret half of the parties' encryption key. The first "
            "party if not given.",
            show_default=False,
        ),
    ] = None,
    regularization: Annotated[
        float | None,
        typer.Option(
            help="Lambda, the weight of the penalty on the model's weights. The protocol's default if not given.",
            show_default=False,
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(help="The seconds of silence that end the run. 600 if not given.", show_default=False),
    ] = None,
    sums: Annotated[
        str | None,
        typer.Option(
            "--sum",
            help="The kind of sums: 'masks' or 'paillier', which needs a lead and a key. If not given, 'paillier' for "
            "the papers' protocols and wherever --lead or --key-bits is given, else 'masks'.",
            show_default=False,
        ),
    ] = None,
    key_bits: Annotated[
        int | None,
        typer.Option(
            help="With --sum paillier: 2048 or 3072. Smaller keys serve simulations only. 2048 if not given.",
            show_default=False,
        ),
    ] = None,
    out_of_bounds: Annotated[
        str | None,
        typer.Option(
            help="The treatment of cells that do not fit: 'clamp' moves numbers to their bounds and fills what is "
            "missing; 'refuse' refuses the file, which tells others something. 'clamp' if not given.",
            show_default=False,
        ),
    ] = None,
    min_survivors: Annotated[
        int | None,
        typer.Option(
            help="Continue the run without silent parties, down to this number. The file states the cost in noise. If "
            "not given, the run needs every party to the end.",
            show_default=False,
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option(
            help="With --min-survivors: the number of sums that may be repeated. 1 if not given.", show_default=False
        ),
    ] = None,
    double_masks: Annotated[
        bool,
        typer.Option(
            "--double-masks",
            help="With --min-survivors: repeat no sum, but remove the masks of parties that fall silent. This is for "
            "studies with few sums or many parties.",
        ),
    ] = False,
    patience: Annotated[
        float | None,
        typer.Option(
            help="With --min-survivors: the seconds that Charlie waits for a contribution. 30 if not given.",
            show_default=False,
        ),
    ] = None,
    throwaway_keys: Annotated[
        bool, typer.Option("--throwaway-keys", help="Insert keys that nobody holds: enough for 'masquerade simulate'.")
    ] = False,
    output_format: FormatOption = Format.TEXT,
) -> Outcome:
    """Write the draft of a study: a commented file, with placeholders for keys that are not given."""
    given = {**locals()}
    if measured is not None or threshold is not None:
        return _measuring(given)
    from masquerade.drafting import ColumnOptions, draft_of, left_open, parse_setting, placed, protocol_for
    from masquerade.losing import dropout_options
    from masquerade_core.identity import PublicKeys

    del output_format
    draft, notes = draft_of(
        {
            "protocol": protocol_for(purpose, protocol),
            "rounds": rounds,
            "parameters": dict(map(parse_setting, setting or ())) | ({} if clip is None else {"clip": clip}),
            "name": name,
            "parties": [placed(text) for text in party or ()],
            "curator_key": PublicKeys.parse(curator_key) if curator_key else None,
            "address": address,
            "epsilon": epsilon,
            "delta": delta,
            "calibration": calibration,
            "colluders": colluders,
            "min_records": min_records,
            "expected_records": expected_records,
            "lead": lead,
            "regularization": regularization,
            "deadline_seconds": deadline,
            "sum": sums,
            "key_bits": key_bits,
            "out_of_bounds": out_of_bounds,
            "measured": True,
            "dropouts": dropout_options(min_survivors, retries, patience, double_masks=double_masks) or None,
        },
        ColumnOptions(feature or (), label, features_from, from_public_sample, ignore or ()),
        like=like,
        auxiliary=auxiliary,
        throwaway_keys=throwaway_keys,
    )
    draft.write(output)
    examples = [*draft.examples, *(() if party or like is not None else ("party",))]
    return Outcome(
        f"{output} is a study of {len(draft.parties)} parties{left_open(draft, examples)}"
        + "".join(f". {note}" for note in notes)
        + "".join(f". Note: {note}" for note in draft.notes),
        {
            "file": str(output),
            "parties": [who for who, _ in draft.parties],
            "complete": draft.complete,
            "examples": examples,
            "unranged": list(draft.unranged),
        },
        hint=("replace the examples, " if examples else "")
        + ("fill in the ranges, " if draft.unranged else "")
        + f"read the file through, then run: masquerade study check {output}",
    )


def _measuring(given: dict[str, Any]) -> Outcome:
    """Write the study that measures a model; refuse options that have no meaning for it."""
    from masquerade.cli.evaluate import measure
    from masquerade_core.errors import BadInput

    wanted = {name: given.pop(name) for name in ("like", "measured", "output", "epsilon", "delta", "threshold")}
    if wanted["measured"] is None or wanted["like"] is None:
        missing = "--like" if wanted["like"] is None else "--measure"
        raise BadInput(
            f"{missing} is not given",
            "name the study that made the model with --like, and its model.json with --measure",
        )
    others = [name for name, value in given.items() if value and name != "output_format"]
    if others:
        option = others[0].replace("_", "-")
        raise BadInput(
            f"--measure takes columns, parties and settings from --like, and '{option}' was given as well",
            "leave it out; --epsilon, --delta and --threshold may be given",
        )
    return measure(*wanted.values())
