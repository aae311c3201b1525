"""``MODEL_CARD.md``: what a model is for, what it was learned from, and what is promised of it, in the hubs' format.

The front matter is YAML, as the Hugging Face hub reads it. Every text in it is a JSON string, which is YAML too. The
privacy statement stands in the card twice: in words, and as a block of JSON that :func:`read_card` reads back.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from masquerade.exports.provenance import Provenance
from masquerade_core.bounded import MOST_OF_A_RUN, read_text
from masquerade_core.coefficients import LEVEL
from masquerade_core.errors import BadInput
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.study import Feature

__all__ = ["CARD", "card_of", "read_card"]

CARD = "MODEL_CARD.md"

_FENCE = "```json masquerade"
_HINT = "write the card anew with 'masquerade export MODEL --to card'"


def read_card(source: Path | str) -> Provenance:
    """Read the block of a model card that says where the model comes from and what is promised of it.

    Parameters
    ----------
    source : path
        The card.

    Raises
    ------
    BadInput
        The file cannot be read, or has no such block, or two.
    """
    path = Path(source)
    text = read_text(path, MOST_OF_A_RUN, "model card", _HINT)
    blocks = re.findall(rf"^{_FENCE}\n(.*?)\n```$", text, flags=re.DOTALL | re.MULTILINE)
    if len(blocks) != 1:
        raise BadInput(f"{path} has {len(blocks)} blocks that begin with {_FENCE}; a model card has one", _HINT)
    return Provenance.from_text(blocks[0], path)


def card_of(provenance: Provenance) -> str:
    """Return the text of a model card."""
    parts = (_front_matter, _head, _coefficients, _uses, _columns, _quality, _privacy, _machines, _origin)
    return "\n".join(line for part in parts for line in part(provenance)) + "\n"


def _front_matter(p: Provenance) -> Iterator[str]:
    tags = ["differential-privacy", "federated-learning", "masquerade", p.protocol]
    tags += ["simulation"] if p.watermark else []
    yield "---"
    yield "library_name: sklearn"
    yield f"pipeline_tag: tabular-{'regression' if 'min' in p.label else 'classification'}"
    yield "tags:"
    yield from (f"- {json.dumps(tag)}" for tag in tags)
    if metrics := list(_metrics(p)):
        yield "model-index:"
        yield f"- name: {json.dumps(p.study)}"
        yield "  results:"
        yield "  - task:"
        yield "      type: tabular-classification"
        yield "    dataset:"
        yield f"      name: {json.dumps(f'records held back at each party of the study {p.study}')}"
        yield '      type: "private"'
        yield "    metrics:"
        for kind, value, words in metrics:
            yield f"    - type: {kind}"
            yield f"      value: {value!r}"
            yield f"      name: {json.dumps(words)}"
    yield "---"


def _metrics(p: Provenance) -> Iterator[tuple[str, float, str]]:
    """Return what an evaluation measured, as a hub's table of results names it."""
    found = p.facts.get("evaluation") or {}
    error, auc = (found.get(name) or {} for name in ("error", "auc"))
    if error.get("value") is not None:  # else the noise drowns it
        yield "accuracy", round(1 - error["value"], 6), f"1 - error, {_interval(error)}"
    if auc.get("value") is not None:
        yield "roc_auc", auc["value"], f"AUC, {_interval(auc)}"


def _interval(estimate: Mapping[str, Any]) -> str:
    return f"95 % interval: {estimate['low']:.4g} to {estimate['high']:.4g}"


def _head(p: Provenance) -> Iterator[str]:
    yield ""
    yield f"# {_plain(p.study)}"
    yield ""
    if p.watermark:
        yield f"> **{p.watermark}.** One process saw all records, and a seed may give its noise away. Do not"
        yield "> publish it as a private model."
        yield ""
    found = p.coefficients()
    what = "linear classifier" if found is None else f"{found.family} regression"
    yield f"A {what} of the column `{_code(p.label['name'])}`. {_answers(p)}"
    if p.watermark:
        yield f"It was learned in a simulation of the protocol `{_code(p.protocol)}` of masquerade."
    else:
        yield f"Several data owners learned it together with the protocol `{_code(p.protocol)}` of masquerade."
        yield "None of them showed its records to anybody."
    yield ""


def _answers(p: Provenance) -> str:
    classes = p.label.get("classes")
    if "min" in p.label:
        return f"It estimates a number between {p.label['min']:g} and {p.label['max']:g}."
    if classes is None:
        return f"Its answers are `{_code(p.label['positive'])}` and `not {_code(p.label['positive'])}`."
    return f"Its answers are {', '.join(f'`{_code(name)}`' for name in classes)}."


def _coefficients(p: Provenance) -> Iterator[str]:
    """Return the table of a regression's coefficients."""
    if (found := p.coefficients()) is None:
        return
    logistic = found.family == "logistic"
    interval = f"{LEVEL:.0%} interval".replace("%", " %")
    heads = ["column", "coefficient", "standard error", interval, *(["odds ratio", interval] if logistic else [])]
    yield "## The coefficients"
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join(['---'] * len(heads))} |"
    for row in found.rows:
        if not row.told:
            cells = [f"cannot tell: {_plain(row.reason)}", *[""] * (len(heads) - 2)]
        else:
            numbers = [(row.estimate, row.low, row.high)]
            numbers += [(row.odds, row.odds_low, row.odds_high)] if logistic else []
            cells = [text for x, low, high in numbers for text in (f"{x:.4g}", f"{low:.4g} to {high:.4g}")]
            cells.insert(1, f"{row.se:.4g}")
        yield f"| {_plain(row.name)} | {' | '.join(cells)} |"
    yield ""
    yield "A number's coefficient is for one unit of its column. A level is compared with its column's first one. The"
    yield "intervals count both the records' chance and the noise. `model.json` has the covariance matrix as well."
    yield ""


def _uses(p: Provenance) -> Iterator[str]:
    yield "## How to use it"
    yield ""
    yield "```"
    if p.facts.get("coefficients"):
        yield "masquerade predict model.json records.csv        # or model.onnx"
        yield "```"
        yield ""
        yield "`model.onnx` has an input for each column, of shape (records, 1): float64 for numbers, and text for"
        yield "levels. Both take raw columns, and encode them as the table below says."
        yield ""
        return
    yield "masquerade predict model.json records.csv        # or model.onnx, or model.skops"
    yield "```"
    yield ""
    yield '`model.skops` is a pipeline of scikit-learn: `skops.io.load("model.skops").predict(frame)`.'
    yield "`model.onnx` has an input for each column, of shape (records, 1): float64 for numbers, and text for levels."
    yield "All of them take raw columns, and encode them as the table below says."
    yield ""
    yield "Levels are compared as text. So a column of levels must be text in a data frame, also if it looks like"
    yield "numbers."
    if p.loss != LOGISTIC.name:
        yield f"The model was learned with the loss `{p.loss}`: its scores are margins, and not probabilities."
    if p.threshold:
        yield f"It answers with the positive label where the score is above {p.threshold:.6g}, and not above 0."
    yield ""


def _columns(p: Provenance) -> Iterator[str]:
    encoder, _ = p.schema()
    clamps = encoder.out_of_bounds == "clamp"
    yield "## The columns"
    yield ""
    yield "| column | values | a missing cell counts as |"
    yield "| --- | --- | --- |"
    for f in encoder.features:
        yield f"| {_plain(f.name)} | {_plain(f.range)} | {_plain(_missing(f, clamps=clamps))} |"
    yield ""
    yield (
        "A number outside its range is moved to the nearer end of it. An unknown level counts as a missing cell."
        if clamps
        else "A record with any other value is refused. An ONNX graph cannot refuse a single record: it gives an empty "
        "label and NaN."
    )
    yield ""


def _missing(f: Feature, *, clamps: bool) -> str:
    if not clamps and f.missing is None:
        return "(the record is refused)"
    return f.filler if isinstance(f.filler, str) else f"{f.filler:g}"


def _quality(p: Provenance) -> Iterator[str]:
    yield "## How good it is"
    yield ""
    found = list(_metrics(p))
    for _, value, words in found:
        yield f"- {value:.4g} ({words})"
    if evaluation := p.facts.get("evaluation"):
        yield "" if found else "The noise of the measurement is so large that no number is known."
        yield f"Measured privately on {evaluation['records']:,} records that the parties held back."
    else:
        yield "Nothing was measured on records that the model has not seen, so nothing is said of its quality."
    yield ""


def _privacy(p: Provenance) -> Iterator[str]:
    yield "## What is promised of its privacy"
    yield ""
    yield f"The study's target is epsilon = {p.epsilon:g}, delta = {p.delta:g}."
    if p.statement is None:
        yield "The run's `result.json` was not at hand when this card was written. So its statement is not here."
    elif not p.statement:
        yield "Nothing is promised: one person held all records, and this baseline adds no noise."
    else:
        yield ""
        yield "| who looks | whose privacy | adversary | what is claimed | what is proved |"
        yield "| --- | --- | --- | --- | --- |"
        for row in p.statement:
            cells = (row["view"], row["unit"], row["adversary"], row["claimed"], row["provable"])
            yield f"| {' | '.join(_plain(str(cell)) for cell in cells)} |"
        yield ""
        yield 'Where nothing is proved, the row says "none". The block below has the assumptions of each row.'
    yield ""


def _machines(p: Provenance) -> Iterator[str]:
    yield "## For machines"
    yield ""
    yield "The privacy statement with all its assumptions, and the encoding. The Python function"
    yield "`masquerade.exports.card.read_card` reads this block."
    yield ""
    yield _FENCE
    yield json.dumps(p.to_json(), indent=1, allow_nan=False)  # in it no line begins with a fence: all text is quoted
    yield "```"
    yield ""


def _origin(p: Provenance) -> Iterator[str]:
    yield "## Where it comes from"
    yield ""
    yield f"- run: `{_code(p.run_id)}`"
    yield f"- written by masquerade {_plain(p.version)}"
    if (parties := p.facts.get("parties")) is not None:
        yield f"- {parties if isinstance(parties, int) else len(parties)} parties"
    if (calibration := p.facts.get("calibration")) is not None:
        yield f"- calibration of the noise: {_plain(str(calibration))}"
    yield ""
    yield "`masquerade verify` checks what the run left, where its directory is at hand. This card is not signed:"
    yield "anyone who passes it on can change it. The statement of the run's own `result.json` counts."


def _plain(text: str) -> str:
    """Return a text in which no character means anything to Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|&~])", r"\\\1", text)


def _code(text: str) -> str:
    """Return a text that can stand between backticks."""
    return text.replace("`", "'").replace("|", "\\|")
