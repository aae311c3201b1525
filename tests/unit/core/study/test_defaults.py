"""With what ``study new`` writes, nobody but Charlie with several parties sees more than the privacy target allows.

And what a statement names as the setting with which a row would hold is one: put into the study, it makes the row hold.
"""

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from masquerade.draft import Draft, throwaway_key
from masquerade.drafting import run_settings
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import AuxiliaryFile, Feature, Label, Study
from masquerade_protocols import BASELINES, MEASUREMENTS, PROTOCOLS, Protocol, entry_named, entry_of, statement_of

EVERY = {**PROTOCOLS, **MEASUREMENTS, **BASELINES}
SIZES = ((2, 3), (2, 100), (3, 10), (5, 3), (5, 100), (20, 10), (20, 100))
"""Each K and each d, with both ends of both. K gives a statement its views, and d enters the noise alone."""
CASES = [(name, K, d) for name in EVERY for K, d in SIZES]

COUNTED_ON = re.compile(
    r"(released .*|evaluation|Charlie|one party.*|the lead|Charlie with 1 party|Charlie with the lead)"
    r"(, who break the rules)?"
)
"""The views that look alone, or with Charlie: one other participant at most sides with him."""


def draft_of(name: str, K: int, d: int, **more: Any) -> Draft:
    """The output of ``study new`` for K parties, and d coordinates with the constant, without other options."""
    entry = entry_named(name)
    weights = {"parameters": {"weights": [0.0] * d}} if entry.measures else {}
    auxiliary = AuxiliaryFile(file="auxiliary.csv", sha256="0" * 64, records=1000) if entry.auxiliary else None
    return Draft(
        parties=[(f"p{k}", throwaway_key()) for k in range(K)],
        curator_key=throwaway_key(),
        protocol=name,
        features=[Feature(name=f"x{i}", min=0.0, max=1.0) for i in range(d - 1)],
        label=Label(name="y", positive="1"),
        auxiliary=auxiliary,
        measured=True,
        **{**weights, **more},
    )


@cache
def new_study(name: str, K: int, d: int, calibration: str | None = None) -> Study:
    study = Study.parse(draft_of(name, K, d, calibration=calibration).to_toml(), in_memory=True)
    assert (study.K, study.d) == (K, d)
    return study


@cache
def rows_of(name: str, K: int, d: int, calibration: str | None = None) -> tuple[Claim, ...]:
    return statement_of(new_study(name, K, d, calibration))


def meets(row: Claim, study: Study, *, slack: float = 0.0) -> bool:
    """Whether the row proves the study's privacy target."""
    if row.epsilon is None or row.delta is None:
        return False
    return row.epsilon <= study.privacy.epsilon and row.delta <= study.privacy.delta * (1 + slack)


def singles(rows: tuple[Claim, ...]) -> list[Claim]:
    """The rows about one unit that the noise is sized for, in the views that the default counts on."""
    sized = rows[0].unit
    return [row for row in rows if row.unit == sized and COUNTED_ON.fullmatch(row.view) and " of one " not in row.view]


@pytest.mark.parametrize(("name", "K", "d"), [case for case in CASES if "proven" in EVERY[case[0]].calibrations])
def test_no_view_of_one_other_participant_exceeds_the_target_with_a_new_study(name: str, K: int, d: int) -> None:
    study, rows = new_study(name, K, d), rows_of(name, K, d)
    assert study.proven
    looked = singles(rows)
    assert looked[0] is rows[0]
    if name not in BASELINES:
        assert study.privacy.colluders == 1
        assert {"Charlie", "Charlie with 1 party"} <= {row.view for row in looked} or name == "input-noise"
        assert any(row.view.startswith("one party") for row in looked)
    for row in looked:
        assert meets(row, study), (row.view, row.epsilon, row.delta)


@pytest.mark.parametrize(("name", "K", "d"), CASES)
def test_none_comes_with_a_sentence_on_what_to_change(name: str, K: int, d: int) -> None:
    for row in rows_of(name, K, d):
        if row.epsilon is None:
            assert row.provable == "none"
            assert re.search(r" = \S+ in the study$|^no setting: \w+ .*\w+", row.holds_at), row
            assert len(row.text.split()) > 5


SETTING = re.compile(r'(\w+) = ("\w+"|[\d.e-]*\d)')


def settings_in(words: str, *, alone: bool) -> dict[str, Any]:
    """The settings that a row names; ``alone`` where they must be the whole of its sentence."""
    named, _, more = words.partition(" in the study")
    found = {key: value.strip('"') if value.startswith('"') else float(value) for key, value in SETTING.findall(named)}
    rest = (SETTING.sub("", named).replace(",", " ").replace(" and ", " ") + more).strip()
    assert found, f"{words!r} names no setting"
    assert not (alone and rest), f"{words!r} names more than settings: {rest!r}"
    return found


@cache
def statement_with(
    name: str, K: int, d: int, calibration: str | None, wanted: tuple[tuple[str, Any], ...]
) -> tuple[Study, tuple[Claim, ...]]:
    """The new study with these settings, and its statement. Many rows name the same ones."""
    study = with_settings(new_study(name, K, d, calibration), EVERY[name], dict(wanted))
    entry_of(study)
    return study, statement_of(study)


def with_settings(study: Study, entry: Protocol, wanted: dict[str, Any]) -> Study:
    """The study with these settings put in; with another calibration, as ``study new --like`` makes it."""
    privacy = {key: value for key, value in wanted.items() if key in {"epsilon", "delta", "colluders"}}
    if "colluders" in privacy:
        privacy["colluders"] = int(privacy["colluders"])
    own = {key: value for key, value in wanted.items() if key in entry.parameters.model_fields}
    assert {"calibration", *privacy, *own} >= set(wanted), f"{wanted} are no settings of {entry.name}"
    carried = run_settings(study, entry.name, wanted.get("calibration"))
    carried["parameters"] = {**carried["parameters"], **own}
    draft = replace(draft_of(entry.name, study.K, study.d), epsilon=study.privacy.epsilon, measured=False)
    draft = replace(draft, regularization=study.model.regularization, **{**carried, **privacy})
    return Study.parse(draft.to_toml(), in_memory=True)


_SMALLEST = {
    "the party with the fewest records": "one party, the smallest included",
    "Charlie or any party, together with the smallest party": "Charlie with 1 party",
    "Charlie or a party that breaks the rules": "Charlie with 1 party, who break the rules",
}
"""Views of a paper's noise, which one party knows, and what they are where every party draws a share."""


def same_view(row: Claim, study: Study) -> set[str]:
    """The names that a view may have in a study with more colluders: how much noise it does not know is the same."""
    K, t = study.K, study.privacy.colluders
    also = f"Charlie with {t} part{'y' if t == 1 else 'ies'}"
    if row.view == "Charlie with all parties but one" and t == K - 1:
        return {row.view, also}
    if row.view.endswith(", where one honest party adds no noise"):
        return {also}  # who adds no noise costs as much as one more colluder
    if study.proven and row.view in _SMALLEST:
        return {_SMALLEST[row.view]}
    return {row.view}


@pytest.mark.parametrize(
    ("name", "K", "d", "calibration"),
    [
        (name, K, d, calibration)
        for name, K, d in CASES
        for calibration in (None, *({"paper"} & set(EVERY[name].calibrations)))
    ],
)
def test_every_setting_that_a_row_names_makes_it_hold(name: str, K: int, d: int, calibration: str | None) -> None:
    study, slack = new_study(name, K, d, calibration), 0.0
    if calibration == "paper":
        slack = 1e-9  # a paper's noise leaves nothing of delta for the distance between a sampler and its law
    for row in rows_of(name, K, d, calibration):
        if row.holds_at == "this noise":
            assert meets(row, study, slack=slack), row.view
        elif not re.match(r"no \w+: ", row.holds_at):
            settings = settings_in(row.holds_at, alone=calibration is None)
            other, rows = statement_with(name, K, d, calibration, tuple(settings.items()))
            held = [
                found
                for found in rows
                if found.view in same_view(row, other) and (found.unit, found.neighbours) == (row.unit, row.neighbours)
            ]
            assert held, (row.view, row.holds_at)
            for found in held:
                assert meets(found, study, slack=slack), (row.view, row.holds_at, found.epsilon, found.delta)
