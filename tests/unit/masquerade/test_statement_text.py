"""A privacy statement as it is printed: true for everybody who looks, and impossible to misread.

Every protocol's statement is looked at, with either calibration, for several numbers of parties and of coordinates.
"""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from rich.console import Console
from scipy import optimize, special

from masquerade.report import explained
from masquerade.statement_view import flags, statement
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.several_records import ABSURD, group_bound
from masquerade_core.privacy.statement import BREAKS, FOLLOWS, NONE, Claim, Rows, digits, gained, odds, without_numbers
from masquerade_core.study import Study
from masquerade_protocols import BASELINES, entry_of, statement_of
from masquerade_protocols.blocks import noisy_sums
from masquerade_protocols.blocks.evaluation import noise_of
from masquerade_protocols.registry import NO_TIMES
from tests.messages import pattern, raises, says, sentence
from tests.pages import Page, defined_tests
from tests.statement_studies import studies, study_text

PAGE = Page("docs/privacy/statement.md")
TEXTS = dict(studies())
FIRST = {name.split(":")[0]: name for name in reversed(TEXTS)}
"""One study of each protocol and calibration."""

SMALLEST = [name for name in TEXTS if name in FIRST.values() or re.search(r": K=(2 d=3 t=0|3 d=10 t=1)", name)]
"""Of each protocol, calibration and section the first study, and one with colluders; with classes where there are."""

GAUSSIAN = (
    "dp-gd proven",
    "psgd proven",
    "local-aggregation proven",
    "weighted-dp",
    "central-dp",
    "summary",
    "evaluation",
)


@cache
def _study(name: str) -> Study:
    """Return a study: those that differ in the colluders alone are read once."""
    first = re.sub(r" t=\d+", " t=0", name)
    if first == name:
        return Study.parse(TEXTS[name], in_memory=True)
    return _with(_study(first), colluders=int(name.split(" t=")[1].split(maxsplit=1)[0]))


@cache
def _statement(name: str) -> tuple[Claim, ...]:
    """Return a study's statement: several tests look at the same one."""
    return statement_of(_study(name))


def _with(study: Study, **changes: Any) -> Study:
    rules = study.study.model_copy(update={k: v for k, v in changes.items() if k in type(study.study).model_fields})
    privacy = study.privacy.model_copy(
        update={k: v for k, v in changes.items() if k in {"epsilon", "delta", "colluders"}}
    )
    return study.model_copy(update={"study": rules, "privacy": privacy})


def _printed(*parts: Any) -> str:
    out = io.StringIO()
    console = Console(file=out, width=4000, color_system=None)
    for part in parts:
        console.print(part)
    return " ".join(out.getvalue().split())


def _rows(study: Study) -> list[dict[str, Any]]:
    return [claim.to_json() for claim in statement_of(study)]


# --- No number where nothing is proved --------------------------------------------------------


@pytest.mark.parametrize("protocol", sorted({name.split()[0] for name in TEXTS}))
def test_no_row_has_an_epsilon_where_delta_is_one_or_more(protocol: str) -> None:
    for name in TEXTS:
        if name.split()[0] != protocol:
            continue
        for row in _statement(name):
            if row.epsilon is None:
                assert row.provable == NONE, name
                assert row.delta is None, name
                assert row.definition == NONE, name
            else:
                assert row.delta is not None
                assert 0 <= row.delta < 1, name
                assert math.isfinite(row.epsilon), name
                assert re.search(r"epsilon = \d", row.provable), name
            assert "not assessed" not in f"{row.provable} {row.text} {row.holds_at}", name


def test_a_row_with_a_delta_of_one_cannot_be_made() -> None:
    common: dict[str, Any] = dict.fromkeys(
        ("view", "unit", "neighbours", "definition", "claimed", "provable", "holds_at", "source", "text"), ""
    )
    for epsilon, delta in ((1.0, 1.0), (math.inf, 0.1), (1.0, None), (None, 0.1)):
        with pytest.raises(LocalProtocolError):
            Claim(**common, assumptions=(), epsilon=epsilon, delta=delta, adversary=FOLLOWS)
    with raises(LocalProtocolError, "row_names_adversary"):
        Claim(**common, assumptions=(), epsilon=1.0, delta=0.1, adversary="")


def test_a_proof_whose_delta_reaches_one_becomes_none_and_loses_its_numbers() -> None:
    row = Rows(source="s", assumptions=("all",)).proved(
        "Charlie",
        "He sees sums. It costs epsilon = 100. He is alone.",
        "one",
        claimed="pure",
        provable="epsilon = 100, delta = 1",
        epsilon=100.0,
        delta=1.0,
        holds_at="less",
    )
    assert (row.epsilon, row.delta, row.provable, row.definition) == (None, None, NONE, NONE)
    assert row.text == (
        "He sees sums. He is alone. Nothing is proved here: delta would reach 1, and a delta of 1 allows everything."
    )
    assert row.assumptions == ("all", "one")
    assert without_numbers("It costs epsilon = 100.") == "."


@pytest.mark.parametrize(("d", "known"), [(3, 40.9), (5, 29.8), (8, 22.1)])
def test_the_default_psgd_study_proves_what_composition_gives(d: int, known: float) -> None:
    """T = 100 rounds of epsilon = 1 at delta = 1e-6; it was 100 with a delta of 1."""
    text = study_text("psgd", "paper", "rounds = 100", K=5, d=d, min_records=100, epsilon=1.0, delta=1e-6, colluders=0)
    for row in statement_of(Study.parse(text, in_memory=True)):
        if row.unit == "record":
            assert row.epsilon == pytest.approx(known, abs=0.06)
            assert row.delta == 1e-6


def test_without_a_delta_a_hundred_rounds_prove_nothing() -> None:
    text = study_text(
        "noisy-gradient", "paper", "rounds = 100", K=3, d=3, min_records=100, epsilon=1.0, delta=0.0, colluders=0
    )
    study = Study.parse(text, in_memory=True)
    assert {row.provable for row in statement_of(study)} == {NONE}
    shown = _printed(*statement(_rows(study), full=True), *entry_of(study).explain(study).cost)
    assert "epsilon = 100" not in shown
    assert says(shown, "proves_nothing_of_run")


# --- The text says what JSON says ------------------------------------------------------------------


@pytest.mark.parametrize("name", FIRST.values())
def test_the_text_has_each_row_s_definition_and_own_assumptions(name: str) -> None:
    rows = [claim.to_json() for claim in _statement(name)]
    shown = _printed(*statement(rows, full=True))
    for row in rows:
        for assumption in row["assumptions"]:
            assert assumption in shown, (name, row["view"])
        assert f"definition: {row['definition']}" in shown
    if any("computational" in row["definition"] for row in rows):
        assert says(shown, "holds_against_computing")
    parts = shown.split("definition: ")[1:]
    assert len(parts) == len(rows)
    common = [set(row["assumptions"]) for row in rows if row["epsilon"] is not None]
    shared = set.intersection(*common) if common else set()
    for row, part in zip(rows, parts, strict=True):  # each row's own stand at that row
        own = [a for a in row["assumptions"] if a not in shared]
        assert all(a in part for a in own), (name, row["view"])
    brief = _printed(*statement(rows))
    assert all(a in brief for row in rows if row["epsilon"] is not None for a in row["assumptions"])


@pytest.mark.parametrize("name", FIRST.values())
def test_a_computational_row_names_what_must_not_be_broken(name: str) -> None:
    for row in _statement(name):
        if "computational" in row.definition:
            assert re.search(r"Paillier|masks|sealed boxes|masked", " ".join((*row.assumptions, row.text))), row.view


def test_a_statement_that_misses_its_target_says_so_above_the_table() -> None:
    study = _study(FIRST["noisy-gradient paper 0"])
    rows = _rows(study)
    said = _printed(*statement(rows, study.privacy.epsilon))
    worst = max(row["epsilon"] for row in rows if row["epsilon"] is not None)
    assert worst > 5 * study.privacy.epsilon
    times = digits(worst / study.privacy.epsilon)
    found = re.search(pattern("misses_target", ..., ..., ..., times), said)
    assert found is not None
    assert found.end() < said.index("who looks")
    met = _study(FIRST["dp-gd proven 0"])
    assert "misses" not in _printed(*statement(_rows(met), met.privacy.epsilon))


def test_every_row_shows_its_adversary() -> None:
    study = _study(FIRST["local-aggregation proven 0"])
    rows = _rows(study)
    said = _printed(*statement(rows, study.privacy.epsilon, full=True))
    for adversary in (FOLLOWS, BREAKS):
        count = sum(row["adversary"] == adversary for row in rows)
        assert count
        assert said.count(f"adversary: {adversary}") == count


def test_a_row_that_charlie_can_break_with_a_key_rests_on_that_key() -> None:
    study = _study("dp-gd proven 0: K=3 d=10 t=0")
    rows = {row.view: row for row in statement_of(study)}
    assert sentence("cannot_break_leads_key") in rows["Charlie"].assumptions
    assert says(" ".join(rows["Charlie with 1 party"].assumptions), "others_honest")
    assert "Paillier" not in " ".join(rows["one party"].assumptions)


# --- By masks nobody leads ---------------------------------------------------------------------------

FORBIDDEN = re.compile(r"\b(lead|leads|keys?|ciphertexts?|paillier|encrypt\w*)\b", re.IGNORECASE)


def _masked(name: str) -> Study:
    text = TEXTS[name].replace("key_bits = 2048", 'sum = "masks"')
    return Study.parse(re.sub(r'^lead = "p0"\n', "", text, flags=re.MULTILINE), in_memory=True)


MASKED = [name for key, name in FIRST.items() if key.split()[0] in {"dp-gd", "psgd", "weighted-dp", "input-noise"}]
MASKED += [name for key, name in FIRST.items() if key.split()[0] in {"vote", "soft", "noisy-gradient"}]


@pytest.mark.parametrize("name", MASKED)
def test_a_study_by_masks_speaks_of_no_lead_no_key_and_no_ciphertext(name: str) -> None:
    study = _masked(name)
    entry = entry_of(study)
    explanation = entry.explain(study)
    said = [*explanation.leaves, *explanation.collusion, *explanation.cost]
    said += [" ".join((row.text, row.claimed, *row.assumptions)) for row in entry.statement(study)]
    for text in said:
        assert not FORBIDDEN.search(text), text
    assert "None" not in " ".join(said)
    everything = " ".join(said)
    if any("computational" in row.definition for row in entry.statement(study)):
        assert "X25519, BLAKE2b and ChaCha20" in everything
    assert "lead" not in _printed(*explained(study, explanation, entry.cost(study)))


def test_with_a_key_the_words_are_about_the_key() -> None:
    study = _study("dp-gd proven 0: K=3 d=10 t=0")
    assert FORBIDDEN.search(" ".join(entry_of(study).explain(study).leaves))
    assert "The lead, p0" in _printed(*explained(study, entry_of(study).explain(study), entry_of(study).cost(study)))


# --- When messages leave ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_every_statement_says_that_times_are_not_covered_unless_a_schedule_covers_them(name: str) -> None:
    said = {NO_TIMES in row.assumptions for row in _statement(name)}
    if name.split(maxsplit=1)[0] in BASELINES:  # nobody sends anything
        assert said <= {False}
    else:
        assert said == {True}


@pytest.mark.parametrize("name", SMALLEST)
def test_a_schedule_covers_times(name: str) -> None:
    """No row's text depends on both the times and the numbers of parties, coordinates and colluders."""
    timed = _with(_study(name), slot_seconds=0.5)
    assert timed.study.slot_seconds == 0.5
    rows = statement_of(timed)
    assert rows or entry_of(timed).baseline
    assert not [row for row in rows if NO_TIMES in row.assumptions]


# --- What an adversary gains -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(0.0, "50 %"), (0.1, "52.5 %"), (1.0, "73 %"), (2.0, "88 %"), (4.0, "98.2 %"), (10.0, "99.9955 %")],
)
def test_how_likely_a_guess_becomes(epsilon: float, shown: str) -> None:
    assert odds(epsilon) == shown
    assert float(shown.removesuffix(" %")) / 100 == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)), abs=6e-3)


def test_a_guess_s_odds_change_by_at_most_a_factor() -> None:
    assert gained(1.0, 1e-6) == sentence(
        "odds_change",
        "one record",
        "e^epsilon = 2.719",
        1,
        sentence("up_to_slack", "1e-06"),
        sentence("guess_at_most", "73 %"),
    )
    assert says(gained(ABSURD + 1, 0.0), "guess_certain")
    assert "delta" not in gained(1.0)


@pytest.mark.parametrize("name", FIRST.values())
def test_no_text_says_that_privacy_is_lost_by_an_amount(name: str) -> None:
    study = _study(name)
    entry = entry_of(study)
    texts = [row.text for row in entry.statement(study)]
    if not entry.baseline:
        explanation = entry.explain(study)
        texts += [*explanation.leaves, *explanation.collusion, *explanation.cost]
        if study.proven:
            assert "The odds of any guess about" in " ".join(explanation.cost)
    for text in texts:
        assert "of its privacy" not in text
        assert "of their privacy" not in text


# --- Several records of one person, and a whole party ------------------------------------------------


def _epsilon(mu: float, delta: float) -> float:
    """Return epsilon of one number from N(0, 1) or N(mu, 1), by another way than the program's."""

    def beyond(e: float) -> float:
        return float(special.ndtr(-e / mu + mu / 2) - math.exp(e) * special.ndtr(-e / mu - mu / 2)) - delta

    return float(optimize.brentq(beyond, 0, 200))


@pytest.mark.parametrize("name", [name for key, name in FIRST.items() if key.startswith(GAUSSIAN[:-2])])
@pytest.mark.parametrize("people", [2, 3])
def test_gaussian_noise_hides_several_records_with_so_many_times_mu(name: str, people: int) -> None:
    study = _with(_study(name), records_per_person=people, min_records=4, epsilon=0.3)
    rows = statement_of(study)
    one = rows[0]
    assert one.epsilon is not None
    assert one.delta is not None
    mu = float(optimize.brentq(lambda m: _epsilon(m, one.delta or 0.0) - (one.epsilon or 0.0), 1e-3, 10))
    (person,) = (row for row in rows if row.unit == "person")
    (party,) = (row for row in rows if row.unit == "party")
    assert person.neighbours == sentence("replace_all_of_person", people)
    for row, size in ((person, people), (party, 4)):
        expected = _epsilon(size * mu, one.delta)
        if expected < ABSURD:
            assert row.epsilon == pytest.approx(expected, rel=1e-3)
            assert row.claimed.startswith("not promised; proved anyway: epsilon = ")
        else:
            assert (row.epsilon, row.provable) == (None, NONE)
            assert says(row.text, "noise_for_one_record")


@pytest.mark.parametrize("name", FIRST.values())
def test_a_study_that_counts_on_several_records_of_a_person_has_a_row_of_their_own(name: str) -> None:
    plain, several = _study(name), _with(_study(name), records_per_person=3)
    before, after = statement_of(plain), statement_of(several)
    assert not any(row.unit == "person" for row in before)
    people = [row for row in after if row.unit == "person"]
    assert [row for row in after if row.unit != "person"] == list(before)
    if any(row.epsilon is not None for row in before):
        (row,) = people
        record = next(r for r in before if r.epsilon is not None)
        assert (row.epsilon is None) == (row.provable == NONE)
        if row.epsilon is not None:
            assert record.epsilon is not None
            assert row.epsilon > record.epsilon
        assert "3 records" in row.view
    if people and not entry_of(several).baseline:
        assert "up to 3 records" in " ".join(entry_of(several).explain(several).cost)


def test_other_noise_hides_several_records_by_adding_up() -> None:
    assert group_bound(0.5, 0.0, 4) == (2.0, 0.0)
    found = group_bound(0.5, 1e-6, 4)
    assert found is not None
    # Four steps from record to record: each costs e^(0.5 k) delta more than the ones before.
    assert found[1] == pytest.approx(1e-6 * sum(math.exp(0.5 * k) for k in range(4)), rel=1e-9)
    assert group_bound(1.0, 1e-6, 100) is None
    assert group_bound(0.0, 1e-6, 5) == pytest.approx((0.0, 5e-6))


def test_a_promise_about_a_whole_party_that_is_absurd_is_none_in_words() -> None:
    rows = statement_of(_study("dp-gd proven 0: K=5 d=31 t=1"))
    (party,) = (row for row in rows if row.unit == "party")
    assert (party.epsilon, party.provable, party.claimed) == (None, NONE, "not promised; nothing is proved")
    assert "the statement promises nothing about the 80 records of one party: none." in party.text


def test_the_setting_that_would_hide_several_records_does() -> None:
    study = _with(_study("dp-gd proven 0: K=5 d=31 t=1"), records_per_person=4)
    (person,) = (row for row in statement_of(study) if row.unit == "person")
    named = float(re.findall(r"^epsilon = ([\d.e-]+) and delta = 1e-06 in the study$", person.holds_at)[0])
    (again,) = (row for row in statement_of(_with(study, epsilon=named)) if row.unit == "person")
    assert again.epsilon is not None
    assert again.delta is not None
    assert 0.7 * study.privacy.epsilon < again.epsilon <= study.privacy.epsilon
    assert again.delta <= study.privacy.delta


# --- Settings that make a row hold -------------------------------------------------------------------


@pytest.mark.parametrize("t", [0, 1, 2])
def test_the_colluders_that_a_row_names_make_it_hold(t: int) -> None:
    study = _study(f"dp-gd proven 0: K=5 d=31 t={min(t, 1)}")
    study = _with(study, colluders=t)
    beyond = [row for row in statement_of(study) if row.holds_at.startswith("colluders = ")]
    assert beyond
    for row in beyond:
        assert row.claimed.startswith("not promised; proved anyway: epsilon = ")
        named = int(re.findall(r"colluders = (\d+) in the study", row.holds_at)[0])
        assert t < named < study.K
        held = [
            r.epsilon
            for r in statement_of(_with(study, colluders=named))
            if r.view == f"Charlie with {_parties(named)}"
        ]
        assert all(epsilon is not None and epsilon <= study.privacy.epsilon for epsilon in held)
        assert held


def _parties(count: int) -> str:
    return f"{count} party" if count == 1 else f"{count} parties"


# --- Not to be overlooked ------------------------------------------------------------------------------


def test_flags_look_at_every_row() -> None:
    study = _study("dp-gd proven 0: K=5 d=31 t=1")
    rows = _rows(study)
    clean = [dict(row, epsilon=0.5, delta=1e-9, provable="x") for row in rows if row["unit"] == "record"]
    assert len(flags(study, clean)) == 1
    for place in range(len(clean)):
        above = [dict(row, epsilon=3.25) if i == place else row for i, row in enumerate(clean)]
        (said, _) = flags(study, above)
        assert "3.25" in said
        assert clean[place]["view"] in said
        bare = [dict(row, epsilon=None, delta=None) if i == place else row for i, row in enumerate(clean)]
        (said, _) = flags(study, bare)
        assert says(said, "nothing_proved_against_one", "this observer", ...)
        assert clean[place]["view"] in said
        large = [dict(row, delta=0.01) if i == place else row for i, row in enumerate(clean)]
        (said, _) = flags(study, large)
        assert "delta = 0.01" in said
        assert clean[place]["view"] in said
        certain = [dict(row, delta=1.0) if i == place else row for i, row in enumerate(clean)]
        (said, _) = flags(study, certain)
        assert says(said, "nothing_proved_against_one", "this observer", ...)


def test_a_person_may_be_learned_from_and_measured_with_so_the_weaker_noise_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = TEXTS["dp-gd proven 0: K=5 d=31 t=1"].replace("[label]", "[evaluation]\nshare = 0.5\n[label]")
    study = _with(Study.parse(text, in_memory=True), records_per_person=3)
    (person,) = (row for row in statement_of(study) if row.unit == "person")
    assert person.epsilon is not None

    def half(study: Study) -> SharedNoise:
        noise = noise_of(study)
        return replace(noise, share=noise.share / 2)

    monkeypatch.setattr(noisy_sums, "evaluation_noise", half)
    (weaker,) = (row for row in statement_of(study) if row.unit == "person")
    assert weaker.epsilon is not None
    assert (weaker.epsilon, weaker.delta) == pytest.approx(half(study).proved(5, 3))
    assert weaker.epsilon > 1.5 * person.epsilon
    assert [row.unit for row in statement_of(study)][-3:] == ["record", "person", "party"]


# --- The study's setting, and the page ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "seen"), [("0", "at least 1"), ("1.5", "a whole number"), ('"two"', "a whole number")]
)
def test_a_wrong_number_of_records_per_person_is_refused_in_a_sentence(value: str, seen: str) -> None:
    text = TEXTS["dp-gd proven 0: K=5 d=31 t=1"].replace("[study]\n", f"[study]\nrecords_per_person = {value}\n")
    with raises(BadInput, "key_of_another_kind", "[study] records_per_person", ..., ...) as refused:
        Study.parse(text, in_memory=True)
    assert seen in refused.value.message


def test_records_per_person_is_one_unless_the_study_says_otherwise() -> None:
    text = TEXTS["dp-gd proven 0: K=5 d=31 t=1"]
    assert Study.parse(text, in_memory=True).study.records_per_person == 1
    several = Study.parse(text.replace("[study]\n", "[study]\nrecords_per_person = 7\n"), in_memory=True)
    assert several.study.records_per_person == 7
    assert several.digest() != Study.parse(text, in_memory=True).digest()


def test_the_page_s_table_is_what_an_epsilon_allows() -> None:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.text.splitlines() if line[:1] == "|"]
    (epsilons,) = (line[1:] for line in lines if line[0] == "epsilon")
    (factors,) = (line[1:] for line in lines if line[0] == "e^epsilon, at most")
    (guesses,) = (line[1:] for line in lines if line[0].startswith("a guess of 50 %"))
    assert len(epsilons) == len(factors) == len(guesses) == 6
    for epsilon, factor, guess in zip(epsilons, factors, guesses, strict=True):
        exact = math.exp(float(epsilon))
        assert exact <= float(factor) <= exact * 1.001
        assert guess == odds(float(epsilon))
    assert f"Beyond an epsilon of {ABSURD:g}" in " ".join(PAGE.text.split())


def test_the_page_s_links_and_tests_exist() -> None:
    assert PAGE.broken_links == []
    assert len(PAGE.tests) >= 3
    assert not PAGE.tests - defined_tests()
