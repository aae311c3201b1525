"""``masquerade study diff``: every change is told, in words, and those that change the noise come first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from masquerade.cli.app import run as command
from masquerade.study_diff import Change, Group, changes
from masquerade_core.study import Study
from tests.host_helpers import new_keys
from tests.messages import says, sentence

KEYS = [str(new_keys().public) for _ in range(6)]

TEXT = f"""
[study]
name = "relapse"
protocol = "dp-gd"
min_parties = 2
min_records = 100
records_per_person = 1
max_records = 5000
out_of_bounds = "clamp"
expected_records = 1000
commoner_share = 0.9
deadline_seconds = 600.0
slot_seconds = 5.0
nonce = "0123456789abcdef"

[privacy]
epsilon = 1.0
delta = 1e-6
calibration = "proven"
colluders = 1

[model]
loss = "logistic"
regularization = 0.01
intercept = true

[crypto]
sum = "masks"

[protocol]
rounds = 20

[protocol.more]
depth = 3

[evaluation]
share = 0.2

[dropouts]
min_survivors = 2
retries = 3
patience_seconds = 60.0

[label]
name = "relapse"
positive = "yes"

[[feature]]
name = "age"
min = 0.0
max = 120.0
missing = 60.0

[[feature]]
name = "sex"
levels = ["f", "m"]

[[feature]]
name = "dose"
edges = [1.0, 2.0]

[curator]
address = "tcp://charlie.example.org:5555"
key = "{KEYS[0]}"

[[party]]
name = "site-a"
key = "{KEYS[1]}"
max_records = 300

[[party]]
name = "site-b"
key = "{KEYS[2]}"

[[party]]
name = "site-c"
key = "{KEYS[3]}"
"""

STUDY = Study.parse(TEXT)


def changed(*pairs: tuple[str, str]) -> Study:
    """The study with pieces of its text exchanged."""
    text = TEXT
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return Study.parse(text, in_memory=True)


def told(new: Study, old: Study = STUDY) -> list[Change]:
    return list(changes(old, new))


# A replacement for each field, its place, and words that must be said of it.
EACH = {
    "study.name": ('name = "relapse"\nprotocol', 'name = "other"\nprotocol', "[study] name", 'is now "other"'),
    "study.protocol": ('"dp-gd"', '"summary"', "[study] protocol", 'was "dp-gd", and is now "summary"'),
    "study.min_parties": ("min_parties = 2", "min_parties = 3", "[study] min_parties", "was 2, and is now 3"),
    "study.min_records": ("min_records = 100", "min_records = 90", "[study] min_records", "was 100, and is now 90"),
    "study.records_per_person": ("person = 1", "person = 2", "[study] records_per_person", "more records of each"),
    "study.max_records": ("max_records = 5000\n", "", "[study] max_records", "was 5000, and is now not set"),
    "study.out_of_bounds": ('"clamp"', '"refuse"', "[study] out_of_bounds", "refuse, which everybody sees"),
    "study.expected_records": ("expected_records = 1000\n", "", "[study] expected_records", "now not set"),
    "study.commoner_share": ("commoner_share = 0.9\n", "", "[study] commoner_share", "was 0.9, and is now not set"),
    "study.deadline_seconds": ("= 600.0", "= 900.0", "[study] deadline_seconds", "is now 900.0"),
    "study.slot_seconds": ("slot_seconds = 5.0", "slot_seconds = 6.0", "[study] slot_seconds", "is now 6.0"),
    "study.nonce": ("0123456789abcdef", "1123456789abcdef", "[study] nonce", "was"),
    "privacy.epsilon": (
        "epsilon = 1.0",
        "epsilon = 2.0",
        "[privacy] epsilon",
        "more can be learned of a single record",
    ),
    "privacy.delta": ("delta = 1e-6", "delta = 1e-7", "[privacy] delta", "smaller probability"),
    "privacy.calibration": (
        '"proven"\ncolluders = 1',
        '"paper"\ncolluders = 1',
        "[privacy] calibration",
        "nothing may be proved",
    ),
    "privacy.colluders": ("colluders = 1", "colluders = 0", "[privacy] colluders", "fewer parties on Charlie's side"),
    "model.loss": ('"logistic"', '"smoothed-hinge"', "[model] loss", "smoothed-hinge"),
    "model.regularization": ("= 0.01", "= 0.02", "[model] regularization", "was 0.01, and is now 0.02"),
    "model.intercept": ("intercept = true", "intercept = false", "[model] intercept", "is now false"),
    "crypto.sum": ('sum = "masks"', 'sum = "paillier"', "[crypto] sum", 'is now "paillier"'),
    "protocol.rounds": ("rounds = 20", "rounds = 21", "[protocol] rounds", "was 20, and is now 21"),
    "protocol.more": ("depth = 3", "depth = 4", "[protocol] more.depth", "was 3, and is now 4"),
    "evaluation.share": ("share = 0.2", "share = 0.3", "[evaluation] share", "More records are held back"),
    "dropouts.min_survivors": ("survivors = 2", "survivors = 3", "[dropouts] min_survivors", "fewer may fall silent"),
    "dropouts.retries": ("retries = 3", "retries = 2", "[dropouts] retries", "Fewer sums"),
    "dropouts.patience_seconds": ("= 60.0\n\n[label]", "= 61.0\n\n[label]", "[dropouts] patience_seconds", "61.0"),
    "label.name": ('name = "relapse"\npositive', 'name = "back"\npositive', "[label] name", 'is now "back"'),
    "label.positive": ('positive = "yes"', 'positive = "no"', "[label] positive", 'was "yes", and is now "no"'),
    "feature.0.name": ('name = "age"', 'name = "years"', "[[feature]] years", "was added, with the range 0 to 120"),
    "feature.0.min": ("min = 0.0", "min = 1.0", "[[feature]] age, min", "was 0.0, and is now 1.0"),
    "feature.0.max": ("max = 120.0", "max = 110.0", "[[feature]] age, max", "was 120.0, and is now 110.0"),
    "feature.0.missing": ("missing = 60.0\n", "", "[[feature]] age, missing", "was 60.0, and is now not set"),
    "feature.1.name": ('name = "sex"', 'name = "gender"', "[[feature]] sex", "the column sex was removed"),
    "feature.1.levels": ('["f", "m"]', '["f", "m", "x"]', "[[feature]] sex, levels", '["f", "m", "x"]'),
    "feature.2.name": ('name = "dose"', 'name = "amount"', "[[feature]] amount", "in bins at 1, 2"),
    "feature.2.edges": ("[1.0, 2.0]", "[1.0, 3.0]", "[[feature]] dose, edges", "[1.0, 3.0]"),
    "curator.address": (":5555", ":5556", "[curator] address", "5556"),
    "curator.key": (KEYS[0], KEYS[4], "[curator] key", "Charlie has another key"),
    "party.0.name": ('"site-a"', '"north"', "[[party]] north", "north joined, with the key of fingerprint"),
    "party.0.key": (KEYS[1], KEYS[4], "[[party]] site-a, key", "site-a has another key"),
    "party.0.max_records": ("max_records = 300\n", "", "[[party]] site-a, max_records", "was 300, and is now not set"),
    "party.1.name": ('"site-b"', '"east"', "[[party]] site-b", "site-b left"),
    "party.1.key": (KEYS[2], KEYS[5], "[[party]] site-b, key", "compare it with the key's owner by telephone"),
    "party.2.name": ('"site-c"', '"south"', "[[party]] site-c", "site-c left"),
    "party.2.key": (KEYS[3], KEYS[5], "[[party]] site-c, key", "site-c has another key"),
}
ALSO = {
    "privacy.calibration": (("[dropouts]\nmin_survivors = 2\nretries = 3\npatience_seconds = 60.0\n", ""),),
    "crypto.sum": (
        ("[dropouts]\nmin_survivors = 2\nretries = 3\npatience_seconds = 60.0\n", ""),
        ("min_parties = 2", 'min_parties = 2\nlead = "site-a"'),
    ),
}
FREE = {"study.attempts", "study.charged_attempts"}  # fields with defaults that this text leaves out


@pytest.mark.parametrize("field", EACH)
def test_a_change_of_any_field_is_told_in_words(field: str) -> None:
    old, new, where, words = EACH[field]
    other = changed((old, new), *ALSO.get(field, ()))
    for before, after in ((STUDY, other), (other, STUDY)):
        assert any(change.where.partition(",")[0] == where.partition(",")[0] for change in told(after, before))
    said = {change.where: change.words for change in told(other)}
    assert words in said[where]


def test_every_field_of_a_study_is_among_them() -> None:
    assert set(STUDY.canonical()) - FREE <= set(EACH)


def test_nothing_is_told_of_one_study() -> None:
    assert told(Study.parse(TEXT)) == []


@pytest.mark.parametrize("field", EACH)
def test_one_change_of_one_field_is_told_as_one(field: str) -> None:
    if field in ALSO or field.endswith("name") or field in {"feature.1.levels", "model.intercept"}:
        return  # they change more than themselves
    assert len(told(changed(EACH[field][:2]))) == 1


def test_what_changes_the_noise_comes_first() -> None:
    new = changed(
        ('name = "relapse"\nprotocol', 'name = "another"\nprotocol'),
        ("max = 120.0", "max = 110.0"),
        (KEYS[1], KEYS[4]),
        ("epsilon = 1.0", "epsilon = 2.0"),
        ("rounds = 20", "rounds = 21"),
    )
    found = told(new)
    assert [change.group for change in found] == [Group.NOISE, Group.NOISE, Group.WHO, Group.RECORDS, Group.REST]
    assert found[0].where == "[privacy] epsilon"


@pytest.mark.parametrize("field", ["study.min_records", "study.protocol", "crypto.sum", "party.0.max_records"])
def test_what_noise_is_sized_by_is_among_what_changes_it(field: str) -> None:
    old, new, where, _ = EACH[field]
    groups = {change.where: change.group for change in told(changed((old, new), *ALSO.get(field, ())))}
    assert groups[where] is Group.NOISE


def test_a_party_more_changes_the_noise_as_well() -> None:
    new = Study.parse(TEXT + f'\n[[party]]\nname = "site-d"\nkey = "{KEYS[4]}"\n')
    first, second = told(new)
    assert says(first.words, "number_of_parties", "3 parties", "4 parties")
    assert first.group is Group.NOISE
    assert says(second.words, "party_joined", "site-d", ...)
    gone = told(STUDY, new)
    assert [change.words for change in gone][1] == "site-d left."


def test_a_column_more_changes_the_noise_as_well() -> None:
    found = told(changed(("[curator]", '[[feature]]\nname = "dosis"\nmin = 0\nmax = 1\n\n[curator]')))
    assert [change.group for change in found] == [Group.NOISE, Group.RECORDS]
    assert found[0].words == sentence("size_of_record", 7, 8)


def test_an_exchanged_order_is_told() -> None:
    parties = changed(
        ('name = "site-b"', 'name = "site-x"'),
        ('name = "site-c"', 'name = "site-b"'),
        ('name = "site-x"', 'name = "site-c"'),
        (KEYS[2], "x"),
        (KEYS[3], KEYS[2]),
        ('"x"', f'"{KEYS[3]}"'),
    )
    assert [change.words for change in told(parties)] == [
        sentence("order_changed", "site-a, site-b, site-c", "site-a, site-c, site-b")
    ]
    sex = '[[feature]]\nname = "sex"\nlevels = ["f", "m"]\n\n'
    columns = changed((sex, ""), ("[curator]", f"{sex}[curator]"))
    assert [change.words for change in told(columns)] == [
        sentence("columns_reordered", "age, sex, dose", "age, dose, sex")
    ]


def test_a_whole_table_that_comes_or_goes_is_told() -> None:
    new = changed(("[dropouts]\nmin_survivors = 2\nretries = 3\npatience_seconds = 60.0\n", ""))
    assert [change.where for change in told(new)] == [
        "[dropouts] min_survivors",
        "[dropouts] patience_seconds",
        "[dropouts] retries",
    ]


def test_the_command_tells_a_person_and_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(TEXT)
    other = changed(("epsilon = 1.0", "epsilon = 2.0"))
    new.write_text(other.to_toml())
    assert command(["study", "diff", str(old), str(new), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["data"]["old"], answer["data"]["new"]) == (STUDY.fingerprint(), other.fingerprint())
    (change,) = answer["data"]["changes"]
    assert (change["about"], change["field"], change["old"], change["new"]) == ("noise", "[privacy] epsilon", 1.0, 2.0)
    assert "masquerade approve" in answer["hint"]
    assert command(["study", "diff", str(old), str(new)]) == 0
    text = " ".join(capsys.readouterr().err.split())
    assert says(text, "what_changes_noise")
    assert f"[privacy] epsilon: {sentence('value_changed', '1.0', '2.0')}" in text
    assert STUDY.fingerprint() in text
    assert other.fingerprint() in text
    assert command(["study", "diff", str(old), str(old)]) == 0
    assert "nothing changed" in capsys.readouterr().err
