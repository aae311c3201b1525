"""The setting with which a row of a statement would hold exists, and put into the study it makes the row hold."""

from __future__ import annotations

import re
from functools import cache

import pytest

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols import statement_of
from tests.statement_studies import studies, study_text

SETTING = re.compile(r'(\w+) = ("[^"]+"|[\d.]+(?:e[+-]?\d+)?)')
SHAPES = ("K=3 d=10 t=0", "K=5 d=31 t=1", "K=20 d=124 t=1")
CHOSEN = {
    name: text
    for name, text in studies()
    if name.endswith(SHAPES) and name.split()[0] not in {"pooled", "individual", "batch"}
    if " 0: " in name or not name.endswith(SHAPES[-1])
}
"""Each shape, and each section with two of them: the largest goes with each protocol's first section alone."""
SAME = {
    "the party with the fewest records": "one party, the smallest included",
    "one party, not the smallest": "one party, the smallest included",
    "Charlie or any party, together with the smallest party": "Charlie with 1 party",
}
"""Rows that the proven calibration calls by another name."""


def _put(name: str, text: str, holds_at: str) -> Study:
    """Put settings into a study. With another calibration, the protocol's section is that of a new study."""
    settings = dict(SETTING.findall(holds_at))
    if settings.get("calibration") == '"proven"':
        bare = ("local", "weighted", "central", "gop")
        text = _proven(text, "" if name.startswith(bare) else "epsilon_y = 0.03" if "input-noise" in name else None)
    for key, value in settings.items():
        line = f"{key} = {value}"
        text, changed = re.subn(rf"^{key} = .*$", line, text, count=1, flags=re.MULTILINE)
        if not changed:
            text = text.replace("[protocol]\n", f"[protocol]\n{line}\n", 1)
    for key in re.findall(r"without (\w+)", holds_at):
        text = re.sub(rf"^{key} = .*\n", "", text, flags=re.MULTILINE)
    return Study.parse(text, in_memory=True)


@cache
def _after(name: str, holds_at: str) -> tuple[Claim, ...]:
    """The statement of a chosen study with settings put in. Several rows name the same ones."""
    return statement_of(_put(name, CHOSEN[name], holds_at))


def _proven(text: str, section: str | None) -> str:
    if section is None:
        (section,) = re.findall(r"\[protocol\]\n(.*?)\n\[label\]", text, flags=re.DOTALL)
    return re.sub(r"\[protocol\]\n.*?\n\[label\]", lambda _: f"[protocol]\n{section}\n[label]", text, flags=re.DOTALL)


def _holds(row: Claim, study: Study) -> bool:
    if row.epsilon is None or row.delta is None:
        return False
    return row.epsilon <= study.privacy.epsilon * (1 + 1e-9) and row.delta <= study.privacy.delta + 2.0**-40


@pytest.mark.parametrize("protocol", sorted({name.split(":")[0] for name in CHOSEN}))
def test_the_setting_that_a_row_names_makes_it_hold(protocol: str) -> None:
    for name, text in CHOSEN.items():
        if name.split(":")[0] != protocol:
            continue
        study = Study.parse(text, in_memory=True)
        for row in statement_of(study):
            if row.holds_at == "this noise":
                assert _holds(row, study), (name, row.view)
                continue
            if row.holds_at.startswith("no setting: "):
                continue
            settings = dict(SETTING.findall(row.holds_at))
            assert settings, (name, row.view, row.holds_at)
            after = _after(name, row.holds_at)
            view = SAME.get(row.view, row.view) if "calibration" in settings else row.view
            same = [r for r in after if (r.view, r.unit) == (view, row.unit)]
            same = [r for r in same if r.neighbours == row.neighbours] or same
            if row.view.endswith("that breaks the rules"):
                same = [r for r in after if r.view.endswith("who break the rules")]
            if not same and row.view == "Charlie with all parties but one":
                same = [r for r in after if r.view == f"Charlie with {settings['colluders']} parties"]
            if "adds no noise" in row.view:  # then one more party may side with Charlie
                same = [r for r in after if r.view.endswith(("party", "parties")) and r.holds_at == "this noise"]
            assert same, (name, row.view, row.holds_at, [r.view for r in after])
            for found in same:
                assert _holds(found, study), (name, row.view, row.holds_at, found.provable)


def test_a_setting_that_is_not_enough_is_noticed() -> None:
    text = study_text(
        "dp-gd", "proven", "rounds = 20\nclip = 0.5\nlearning_rate = 4.0", K=5, d=3, min_records=100, epsilon=1.0,
        delta=1e-6, colluders=0,
    )  # fmt: skip
    study = Study.parse(text, in_memory=True)
    (row,) = (r for r in statement_of(study) if r.view == "Charlie with all parties but one")
    assert not _holds(row, study)
    (less,) = (r for r in statement_of(_put("dp-gd", text, "colluders = 3")) if r.view == row.view)
    assert not _holds(less, study)
