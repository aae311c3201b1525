"""The study file: what it accepts, what it says when it does not, and the hashes everybody signs."""

import base64
import string
from fractions import Fraction
from pathlib import Path

import pytest
from pydantic import ValidationError

from masquerade_core.errors import BadInput
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.study.sections import DECLARED
from masquerade_core.study_files import load_study
from tests.messages import raises


def key(seed: int) -> str:
    return str(PublicKeys(bytes([seed]) * 32, bytes([seed + 100]) * 32))


GOOD = f"""
[study]
name = "wdbc"
protocol = "local-aggregation"
min_parties = 2
lead = "hospital-a"
min_records = 100
deadline_seconds = 600
nonce = "0123456789abcdef"

[privacy]
epsilon = 1
delta = 1e-5
calibration = "paper"

[model]
loss = "logistic"
regularization = 0.01

[crypto]
key_bits = 2048

[protocol]
noise = "l2"

[label]
name = "diagnosis"
positive = "malignant"

[[feature]]
name = "radius_mean"
min = 0
max = 40.0

[[feature]]
name = "sex"
levels = ["f", "m"]

[curator]
address = "tcp://charlie.example.org:5555"
key = "{key(1)}"

[[party]]
name = "hospital-a"
key = "{key(2)}"

[[party]]
name = "hospital-b"
key = "{key(3)}"
"""


def test_a_good_study_is_read_with_its_defaults() -> None:
    study = Study.parse(GOOD)
    assert study.names == ("hospital-a", "hospital-b")
    assert (study.K, study.lead, study.d) == (2, "hospital-a", 4)
    assert study.coordinates == ("radius_mean", "sex=f", "sex=m", "(intercept)")
    assert study.privacy.epsilon == 1.0
    assert study.privacy.colluders == 0
    assert study.crypto.sum == "paillier"
    assert study.protocol == {"noise": "l2"}
    assert study.address == "tcp://charlie.example.org:5555"
    assert study.party("hospital-b").key == PublicKeys.parse(key(3))
    assert study.name_of(PublicKeys.parse(key(3))) == "hospital-b"
    assert study.name_of(PublicKeys.parse(key(1))) == CHARLIE
    assert study.max_records == 2**31 - 1


def test_without_an_intercept_there_is_one_coordinate_less() -> None:
    study = Study.parse(GOOD.replace('loss = "logistic"', "intercept = false"))
    assert study.coordinates == ("radius_mean", "sex=f", "sex=m")


BAD: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("not TOML", 'name = "wdbc"', 'name = "wdbc', ("not TOML", "line 3")),
    ("a key twice", 'name = "wdbc"', 'name = "wdbc"\nname = "b"', ("not TOML", "line 4")),
    (
        "an unknown key",
        "epsilon = 1",
        "epsilom = 1",
        ("[privacy] has an unknown key 'epsilom'", "did you mean 'epsilon'?"),
    ),
    (
        "an unknown section",
        "[crypto]",
        "[cripto]",
        ("the top level has an unknown key 'cripto'", "did you mean 'crypto'?"),
    ),
    ("an unknown party key", f'key = "{key(2)}"', f'kex = "{key(2)}"', ("[[party]] number 1", "did you mean 'key'?")),
    ("an unrelated key", "epsilon = 1", "epsilon = 1\nzzz = 2", ("'zzz'", "known are", "epsilon")),
    ("a missing key", "epsilon = 1", "", ("[privacy] epsilon is missing", "no default")),
    ("a missing section", '[label]\nname = "diagnosis"\npositive = "malignant"', "", ("[label] is missing",)),
    ("a missing positive label", 'positive = "malignant"', "", ("[label] has neither positive nor classes",)),
    ("text for a number", "epsilon = 1", 'epsilon = "1"', ("[privacy] epsilon", '"1"', "a number")),
    ("true for a number", "epsilon = 1", "epsilon = true", ("[privacy] epsilon", "true", "a number")),
    ("a fraction for an integer", "min_records = 100", "min_records = 99.5", ("min_records", "99.5", "whole number")),
    ("a number for text", 'positive = "malignant"', "positive = 1", ("[label] positive", "text in quotes")),
    ("epsilon of zero", "epsilon = 1", "epsilon = 0", ("epsilon is 0", "greater than 0")),
    ("a negative epsilon", "epsilon = 1", "epsilon = -0.5", ("epsilon is -0.5", "greater than 0")),
    ("an infinite epsilon", "epsilon = 1", "epsilon = inf", ("epsilon", "finite")),
    ("epsilon not a number", "epsilon = 1", "epsilon = nan", ("epsilon", "finite")),
    ("delta of one", "delta = 1e-5", "delta = 1", ("delta is 1", "less than 1")),
    ("a negative delta", "delta = 1e-5", "delta = -1e-5", ("delta", "at least 0")),
    (
        "a negative regularization",
        "regularization = 0.01",
        "regularization = -1",
        ("[model] regularization", "at least 0"),
    ),
    (
        "two kinds of label",
        'positive = "malignant"',
        'positive = "m"\nclasses = ["m", "b"]',
        ("has both positive and classes",),
    ),
    (
        "values and bounds",
        'positive = "malignant"',
        'positive = "m"\nmin = 0\nmax = 1',
        ("both positive, min and max",),
    ),
    ("one bound of a label", 'positive = "malignant"', "min = 0", ("[label] has only one of min and max",)),
    (
        "bounds of a label turned round",
        'positive = "malignant"',
        "min = 1\nmax = 0",
        ("[label] has min 1.0 and max 0.0",),
    ),
    ("a class twice", 'positive = "malignant"', 'classes = ["m", "m"]', ("a class twice",)),
    ("one class", 'positive = "malignant"', 'classes = ["m"]', ("1 class; at least two",)),
    ("one record", "min_records = 100", "min_records = 1", ("min_records is 1", "at least 2")),
    ("too many records", "min_records = 100", "min_records = 2147483648", ("min_records", "at most 2147483647")),
    ("one party allowed", "min_parties = 2", "min_parties = 1", ("min_parties is 1", "at least two")),
    ("too few parties", "min_parties = 2", "min_parties = 3", ("2 parties", "min_parties is 3")),
    ("no deadline", "deadline_seconds = 600", "deadline_seconds = 0", ("deadline_seconds is 0", "greater than 0")),
    ("a short nonce", '"0123456789abcdef"', '"abc"', ("[study] nonce", "16 to 64")),
    ("another calibration", 'calibration = "paper"', 'calibration = "guessed"', ("guessed", '"paper" or "proven"')),
    ("another loss", 'loss = "logistic"', 'loss = "log"', ("[model] loss", "log", "smoothed-hinge")),
    (
        "a loss with a kink",
        'loss = "logistic"',
        'loss = "hinge"',
        ("[model] loss", "no derivative where the margin is 1"),
    ),
    ("a steep loss", 'loss = "logistic"', 'loss = "squared-hinge"', ("[model] loss", "derivative has no bound")),
    ("another kind of sum", "key_bits = 2048", 'sum = "shares"', ("[crypto] sum", "masks", "paillier")),
    ("a key under masks", "key_bits = 2048", 'sum = "masks"\nkey_bits = 2048', ("[crypto] has key_bits", "remove")),
    (
        "a lead under masks",
        "key_bits = 2048",
        'sum = "masks"',
        ("[study] lead is", "no party leads"),
    ),
    ("a short key", "key_bits = 2048", "key_bits = 1024", ("key_bits is 1024", "2048 and 3072")),
    ("a tiny key", "key_bits = 2048", "key_bits = 256", ("key_bits is 256", "at least 512")),
    (
        "a strange lead",
        'lead = "hospital-a"',
        'lead = "hospital-c"',
        ("lead is 'hospital-c'", "hospital-a, hospital-b"),
    ),
    ("a name twice", 'name = "hospital-b"', 'name = "hospital-a"', ("'hospital-a' appears in the roster twice",)),
    ("a party called charlie", 'name = "hospital-b"', 'name = "charlie"', ("curator's name",)),
    ("a party called *", 'name = "hospital-b"', 'name = "*"', ("[[party]] number 2, name", "lower-case")),
    ("a party in capitals", 'name = "hospital-b"', 'name = "Hospital-B"', ("[[party]] number 2, name", "lower-case")),
    ("a name ending in a newline", 'name = "hospital-b"', 'name = "hospital-b\\n"', ("[[party]] number 2, name",)),
    ("the same key twice", key(3), key(2), ("'hospital-a' and party 'hospital-b' have the same key",)),
    ("the curator's key", key(3), key(1), ("the curator and party 'hospital-b' have the same key",)),
    (
        "half a key twice",
        key(3),
        str(PublicKeys(bytes([3]) * 32, bytes([102]) * 32)),
        ("'hospital-a' and party 'hospital-b' have the same key",),
    ),
    ("a cut key", key(3), key(3)[:-4], ("[[party]] number 2, key", "mq1:<curve key>:<signing key>")),
    ("a key of another form", key(3), key(3).replace("mq1", "mq2"), ("[[party]] number 2, key", "mq1:")),
    ("a feature without a kind", "min = 0\nmax = 40.0", "", ("'radius_mean'", "either min and max, or levels")),
    ("a feature of both kinds", "max = 40.0", 'max = 40.0\nlevels = ["a", "b"]', ("either min and max, or levels",)),
    ("one bound", "max = 40.0", "", ("'radius_mean'", "only one of min and max")),
    ("bounds the wrong way", "max = 40.0", "max = -1", ("min 0.0 and max -1.0", "smaller")),
    ("equal bounds", "max = 40.0", "max = 0", ("min must be smaller",)),
    ("an infinite bound", "max = 40.0", "max = inf", ("[[feature]] number 1, max", "finite")),
    ("bounds too far apart", "min = 0\nmax = 40.0", "min = -1e308\nmax = 1e308", ("too far apart",)),
    ("one level", 'levels = ["f", "m"]', 'levels = ["f"]', ("'sex' has 1 level;", "at least two")),
    ("no levels", 'levels = ["f", "m"]', "levels = []", ("'sex'", "at least two")),
    ("a level twice", 'levels = ["f", "m"]', 'levels = ["f", "f"]', ("'sex' has a level twice",)),
    ("an empty level", 'levels = ["f", "m"]', 'levels = ["f", ""]', ("[[feature]] number 2, levels, item 2",)),
    ("levels that are text", 'levels = ["f", "m"]', 'levels = "fm"', ("[[feature]] number 2, levels", "a list")),
    ("levels of numbers", 'levels = ["f", "m"]', "levels = [1, 2]", ("levels, item 1", "text in quotes")),
    ("a feature twice", 'name = "sex"', 'name = "radius_mean"', ("feature 'radius_mean' appears in the study twice",)),
    ("a coordinate twice", 'name = "radius_mean"', 'name = "sex=f"', ("both become the coordinate 'sex=f'",)),
    ("the label as a feature", 'name = "diagnosis"', 'name = "sex"', ("the label 'sex' is a feature as well",)),
    ("no port", ":5555", "", ("[curator] address", "tcp://HOST:PORT")),
    ("an impossible port", ":5555", ":70000", ("[curator] address", "at most 65535")),
    ("too many colluders", "delta = 1e-5", "delta = 1e-5\ncolluders = 2", ("colluders is 2", "honest")),
    ("a date in the protocol", 'noise = "l2"', "noise = 2020-01-01", ("[protocol] may hold only",)),
    ("two problems", "epsilon = 1\ndelta = 1e-5", "epsilon = 0\ndelta = 2", ("2 problems", "epsilon", "delta")),
]


@pytest.mark.parametrize(("old", "new", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_study_is_refused_with_a_sentence(old: str, new: str, words: tuple[str, ...]) -> None:
    assert GOOD.count(old) >= 1
    with pytest.raises(BadInput) as caught:
        Study.parse(GOOD.replace(old, new, 1), "wdbc.toml")
    text = caught.value.message + " " + caught.value.hint
    for word in words:
        assert word in text
    for raw in ("pydantic", "value_error", "Value error", "validation", "input_value"):
        assert raw not in text


def test_one_party_alone_is_refused() -> None:
    alone = GOOD[: GOOD.rindex("[[party]]")]
    with raises(BadInput, "roster_shorter_than_min", "1 party", 2):
        Study.parse(alone)


def test_a_malformed_key_is_never_shown() -> None:
    with pytest.raises(BadInput) as caught:
        Study.parse(GOOD.replace(key(3), "SECRETSECRET"))
    assert "SECRET" not in caught.value.message


def test_short_keys_are_for_the_in_memory_table_alone() -> None:
    text = GOOD.replace("key_bits = 2048", "key_bits = 768")
    study = Study.parse(text, in_memory=True)
    assert study.crypto.key_bits == 768
    with raises(BadInput, "key_bits_refused", 768):
        study.for_network()


def test_load_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    with raises(BadInput, "file_missing", "study"):
        load_study(path)[0]
    path.write_bytes(b"\xff\xfe")
    with raises(BadInput, "file_not_utf8"):
        load_study(path)[0]
    with raises(BadInput, "file_unreadable", ..., ...):
        load_study(tmp_path)[0]
    path.write_text(GOOD)
    assert load_study(path)[0] == Study.parse(GOOD)
    path.write_text(GOOD.replace("epsilon = 1", "epsilon = 0"))
    with raises(BadInput, "key_of_another_kind", "s.toml: [privacy] epsilon", 0, "greater than 0"):
        load_study(path)[0]


def test_toml_goes_there_and_back() -> None:
    nasty = GOOD.replace('"malignant"', '"a \\"b\\" \\\\ é \U0001f600 \\u00a0"').replace(
        'noise = "l2"', 'noise = "l2"\nsteps = [1e16, 2.5, true]\ndel = "a\\u007fb"\n"a b" = {x = 1e-300, y = ["z"]}'
    )
    for text in (GOOD, nasty):
        study = Study.parse(text)
        again = Study.parse(study.to_toml())
        assert again == study
        assert again.digest() == study.digest()


def test_the_digest_depends_on_values_and_not_on_spelling() -> None:
    study = Study.parse(GOOD)
    assert study.digest() == Study.parse("# a comment\n" + GOOD.replace("epsilon = 1", "epsilon   = 1.0")).digest()
    assert len(study.digest()) == 32
    assert len(study.study_id("1.0")) == 16
    assert study.study_id("1.0") != study.study_id("1.1")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("epsilon = 1", "epsilon = 1.0000000000000002", "privacy.epsilon"),
        ('levels = ["f", "m"]', 'levels = ["m", "f"]', "feature.1.levels"),
        ("max = 40.0", "max = 41", "feature.0.max"),
        ('noise = "l2"', 'noise = "laplace"', "protocol.noise"),
        ("abcdef", "abcdee", "study.nonce"),
        (key(3), key(4), "party.1.key"),
    ],
)
def test_studies_that_differ_say_in_which_field(old: str, new: str, field: str) -> None:
    ours, theirs = Study.parse(GOOD), Study.parse(GOOD.replace(old, new, 1))
    mine, yours = ours.field_hashes(), theirs.field_hashes()
    assert [name for name in mine if mine[name] != yours[name]] == [field]
    assert list(mine) == list(ours.canonical())
    assert {len(h) for h in mine.values()} == {16}
    assert ours.digest() != theirs.digest()


def test_a_default_counts_as_if_it_were_written() -> None:
    written = GOOD.replace("delta = 1e-5", "delta = 1e-5\ncolluders = 0")
    assert Study.parse(GOOD).canonical() == Study.parse(written).canonical()
    assert "crypto.sum" in Study.parse(GOOD).canonical()


def test_a_study_cannot_be_changed() -> None:
    study = Study.parse(GOOD)
    with pytest.raises(ValidationError) as caught:
        study.privacy.epsilon = 9.0  # type: ignore[misc]  # that it is refused is the point
    assert caught.value.errors()[0]["type"] == "frozen_instance"


def test_decimals_are_exact() -> None:
    assert as_fraction(0.1) == Fraction(1, 10)
    assert as_fraction(1e-5) == Fraction(1, 100_000)


class TestPublicKeys:
    def test_text_goes_there_and_back(self) -> None:
        keys = PublicKeys(bytes(range(32)), bytes(range(32, 64)))
        assert PublicKeys.parse(str(keys)) == keys
        assert str(keys).startswith("mq1:")

    def test_noncanonical_text_is_refused(self) -> None:
        text = key(2)
        twins = {text[:-1] + c for c in string.ascii_letters + string.digits if _same_bytes(text[:-1] + c, text)} - {
            text
        }
        assert twins
        for twin in twins:
            with pytest.raises(BadInput):
                PublicKeys.parse(twin)

    def test_fingerprints_are_short_and_differ(self) -> None:
        prints = {PublicKeys.parse(key(i)).fingerprint() for i in range(20)}
        assert len(prints) == 20
        assert all(len(p.split()) == 8 for p in prints)

    def test_an_unknown_key_is_refused_by_its_fingerprint(self) -> None:
        stranger = PublicKeys.parse(key(9))
        with raises(BadInput, "key_of_nobody", stranger.fingerprint()):
            Study.parse(GOOD).name_of(stranger)

    def test_a_key_of_the_wrong_length_is_refused(self) -> None:
        with raises(BadInput, "public_key_length", 31, 32):
            PublicKeys(bytes(31), bytes(32))


def _same_bytes(a: str, b: str) -> bool:
    return base64.urlsafe_b64decode(a.split(":")[2] + "=") == base64.urlsafe_b64decode(b.split(":")[2] + "=")


def test_names_hold_nothing_that_a_terminal_obeys() -> None:
    """The 8-bit forms of escape sequences as little as the others; and an error shows them spelled out."""
    for character in ("\x1b", "\x7f", "\x85", "\x9b"):
        with pytest.raises(BadInput) as caught:
            Study.parse(GOOD.replace('name = "radius_mean"', f'name = "x\\u{ord(character):04x}2J"'))
        assert character not in caught.value.message


# --- Many parties ---------------------------------------------------------------------------------


def _crowd(K: int, crypto: str) -> str:
    head = GOOD[: GOOD.index("[[party]]")].replace("key_bits = 2048", crypto).replace("local-aggregation", "dp-gd")
    if "masks" in crypto:
        head = head.replace('lead = "hospital-a"\n', "")
    keys = (str(PublicKeys(i.to_bytes(32, "big"), (2**200 + i).to_bytes(32, "big"))) for i in range(1, K + 1))
    names = ["hospital-a", *(f"site-{i}" for i in range(1, K))]
    return head + "\n".join(f'[[party]]\nname = "{n}"\nkey = "{k}"' for n, k in zip(names, keys, strict=True))


def test_thousands_of_parties_need_masks() -> None:
    many = Study.parse(_crowd(1025, 'sum = "masks"'))
    assert (many.K, many.party("site-1024").name, many.place_of["site-7"]) == (1025, "site-1024", 7)
    Study.parse(_crowd(1024, "key_bits = 2048"))
    with raises(BadInput, "roster_too_long_for_sum", "1,025 parties", "paillier", "1,024") as caught:
        Study.parse(_crowd(1025, "key_bits = 2048"))
    assert 'set sum = "masks"' in str(caught.value)


def test_a_study_has_at_most_32768_parties() -> None:
    study = Study.parse(_crowd(3, 'sum = "masks"'))
    rows = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    rows["party"] *= 10_923
    with pytest.raises(ValidationError) as caught:
        Study.model_validate(rows)
    assert [(error["type"], error["ctx"]["max_length"]) for error in caught.value.errors()] == [("too_long", 32768)]


def test_what_follows_from_the_parties_is_worked_out_anew_for_a_copy() -> None:
    study = Study.parse(GOOD)
    assert (study.names, study.place_of["hospital-b"], study.d) == (("hospital-a", "hospital-b"), 1, 4)
    before = study.digest()
    turned = study.model_copy(update={"parties": study.parties[::-1], "features": study.features[:1]})
    assert (turned.names, turned.place_of["hospital-b"], turned.d) == (("hospital-b", "hospital-a"), 0, 2)
    assert turned != study
    assert study.model_copy() == study
    assert turned.digest() == Study.parse(turned.to_toml()).digest() != before


# --- What is declared -----------------------------------------------------------------


def test_what_is_declared_is_part_of_the_hash_and_a_study_without_it_keeps_its_own() -> None:
    plain = Study.parse(GOOD)
    assert plain.study.declared == ()
    assert not any(name in plain.to_toml() for name in DECLARED)
    digests = {plain.digest()}
    for name in DECLARED:
        study = Study.parse(GOOD.replace("[privacy]", f'{name} = "wörds, 1"\n\n[privacy]'))
        assert study.study.declared == ((DECLARED[name], "wörds, 1"),)
        assert Study.parse(study.to_toml()).digest() == study.digest()
        digests.add(study.digest())
    assert len(digests) == 1 + len(DECLARED)


@pytest.mark.parametrize(("name", "most"), [("purpose", 400), ("legal_basis", 128), ("contact", 128)])
def test_what_is_declared_is_one_line_of_limited_length(name: str, most: int) -> None:
    def parsed(text: str) -> Study:
        return Study.parse(GOOD.replace("[privacy]", f'{name} = "{text}"\n\n[privacy]'))

    parsed("a" * most)
    for text in ("", "a" * (most + 1), "two\\nlines", "turned \\u202e round"):
        with raises(
            BadInput, "key_of_another_kind", f"study: [study] {name}", ..., f"1 to {most} printable characters"
        ):
            parsed(text)
