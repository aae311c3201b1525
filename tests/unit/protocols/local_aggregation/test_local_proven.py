"""Local aggregation with noise in shares, at the in-memory table: right, and with the noise that the proof asks for."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from masquerade_core.errors import BadInput, RefusedLocally, RunFailed
from masquerade_core.model import Model, model_to_json
from masquerade_core.privacy.noise.joint_gaussian import MOST_COUNTED_RECORDS, JointNoise
from masquerade_core.rng import Rng
from masquerade_core.saved_model import model_from_json
from masquerade_core.seat import Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import replay
from masquerade_protocols import protocol_of
from masquerade_protocols.comparing import SMALL_NOISE
from masquerade_protocols.in_memory import roles_of
from masquerade_protocols.local_aggregation import additive_shares, public, public_scale, size_class
from masquerade_protocols.local_aggregation import joint_noise as jn
from masquerade_protocols.local_aggregation import roles as la
from masquerade_protocols.local_aggregation.noiseless import expectation, noiseless
from tests.face_helpers import Shell, small_study, split_csv
from tests.messages import raises, says, sentence
from tests.protocol_helpers import make_data, run
from tests.proven_helpers import (
    GRID,
    SCALE_RULES,
    Vector,
    encoded_sum,
    noise_times,
    opened_sum,
    proven_study,
    sd_by_scipy,
    weights,
    without_classifiers,
)

NOTHING = Model((0.0,) * 4, None)  # in place of a released model
UNEVEN = {2: (30, 170), 5: (22, 50, 24, 75, 39)}


# --- Right -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("rule", SCALE_RULES)
def test_without_noise_it_is_the_average_of_the_local_classifiers(
    rule: str, K: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = proven_study(K, 31, rule, lead=K - 1)
    protocol_of(study)
    data = make_data(study, UNEVEN[K])
    with noise_times(monkeypatch, Fraction(0)):
        r = run(study, data)
    counts = UNEVEN[K] if rule == "sizes" else None
    np.testing.assert_allclose(r.model.weights, np.average(weights(study, data), axis=0, weights=counts), atol=1e-11)
    assert len({model.weights for model in r.results.values()}) == 1
    assert opened_sum(r) == encoded_sum(study, data, rule)
    # The test can fail: the two averages are not the same.
    other = UNEVEN[K] if rule != "sizes" else None
    assert np.abs(np.array(r.model.weights) - np.average(weights(study, data), axis=0, weights=other)).max() > 1e-3


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("rule", SCALE_RULES)
def test_with_planted_noise_the_opened_sum_is_the_oracle_s_to_the_bit(
    rule: str, K: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With "selected", everybody draws for the smallest party's size class, whichever party is the smallest."""
    d, planted = 5, []
    sized_for = set()

    def plant(rng: Rng, noise: JointNoise) -> tuple[int, ...]:
        sized_for.add(noise.min_records)
        planted.append(tuple(rng.below(10**9) - 5 * 10**8 for _ in range(d)))
        return planted[-1]

    monkeypatch.setattr(jn, "draw", plant)
    for smallest in range(K):
        study = proven_study(K, d, rule, lead=(smallest + 1) % K)
        data = make_data(study, [15 if j == smallest else 20 + 2**j for j in range(K)])
        planted.clear()
        r = run(study, data)
        columns = zip(encoded_sum(study, data, rule), *planted, strict=True)
        assert opened_sum(r) == [sum(column) for column in columns]
    assert sized_for == {14 if rule == "selected" else 10}  # 14 = 10 sqrt(2), rounded down


def test_a_classifier_that_counts_by_size_is_rounded_once() -> None:
    """It moves by a half at most, as the sensitivity counts. Rounded before the product it would lie on a lattice."""
    w = np.random.default_rng(2).normal(size=50).tolist()
    for n in (1, 7, 1000, MOST_COUNTED_RECORDS):
        exact = [n * Fraction(v) * GRID for v in w]
        assert max(abs(i - v) for i, v in zip(jn.encode(w, n), exact, strict=True)) <= Fraction(1, 2)


def test_where_the_scale_is_public_nothing_is_compared_and_no_key_is_made() -> None:
    sent = {}
    for rule in SCALE_RULES:
        study = proven_study(3, 4, rule)
        r = run(study, make_data(study, (20, 30, 40)))
        sent[rule] = {p.type for p in r.table.passed}
        assert sorted(name for name, _ in r.table.releases) == list(study.names)
    assert sent["floor"] == sent["sizes"] == {"Commitment", "Echo", "Reveal", "Share", "Published"}
    assert {"LeadKey", "CharlieKeys", "SizeShare", "MatchBits", "Indicator", "ClassTerm", "ClassTotal"} <= sent[
        "selected"
    ]


@pytest.mark.parametrize("rule", SCALE_RULES)
def test_it_repeats_to_the_byte(rule: str) -> None:
    study = proven_study(3, 4, rule, lead=1)
    data = make_data(study, (30, 50, 20))
    r = run(study, data)
    for name, role in roles_of(la, r.table, study, data).items():
        replay(role, r.table.journal(name))


@pytest.mark.parametrize("rule", SCALE_RULES)
def test_what_charlie_relays_has_the_same_form_for_every_assignment_of_sizes(rule: str) -> None:
    study = proven_study(3, 3, rule)
    forms = {
        tuple(run(study, make_data(study, sizes, seed=sum(sizes))).table.passed)
        for sizes in ((10, 11, 300), (300, 10, 11), (11, 3000, 10), (10, 10, 10))
    }
    assert len(forms) == 1
    other = proven_study(3, 40, rule)
    assert tuple(run(other, make_data(other, (10, 11, 300))).table.passed) not in forms


@pytest.mark.parametrize("rule", SCALE_RULES)
def test_published_shares_are_uniform(rule: str) -> None:
    study = proven_study(3, 31, rule)
    data = make_data(study, (12, 13, 14))
    values: list[float] = []
    for _ in range(8):
        r = run(study, data)
        (body,) = (
            e.effect.bodies[0]
            for e in r.table.journal(CHARLIE)
            if isinstance(e.effect, Send) and e.effect.type == "Published"
        )
        raw = body[-(len(body) // 64 * 64) :]
        values += [int.from_bytes(raw[i : i + 64], "big") / 2**512 for i in range(0, len(raw), 64)]
    assert len(values) > 40
    assert stats.kstest(values, "uniform").pvalue > 1e-6


def test_the_model_of_shares_and_the_model_of_weights_are_read_back() -> None:
    for rule in SCALE_RULES:
        study = proven_study(2, 3, rule)
        r = run(study, make_data(study, (30, 40)))
        saved = model_from_json(json.loads(json.dumps(model_to_json(r.model, study, r.table.run_id))))
        assert saved.weights == r.model.weights
        assert (saved.shares is None) == (rule == "sizes")


# --- The law of the noise that is opened -----------------------------------------------------------------


def _noise(rule: str, t: int, patch: pytest.MonkeyPatch, times: Fraction = Fraction(1)) -> tuple[Vector, float]:
    """The opened noise of a run whose classifiers are zero, and the standard deviation that it must have."""
    study = proven_study(4, 400, rule, colluders=t, bits=1024, epsilon=0.5)
    sizes = (60, 25, 31, 90)
    with patch.context() as inner:
        without_classifiers(inner)
        with noise_times(inner, times):
            rngs = {name: SimulationRng(11, name) for name in (*study.names, CHARLIE)}
            r = run(study, make_data(study, sizes), rngs)
    n = {"selected": 23, "floor": 10, "sizes": 0}[rule]  # 23 = 10 2^(5/4), the class of 25
    return np.array(opened_sum(r)) / GRID, sd_by_scipy(study, rule, n) * math.sqrt(4 / (4 - t))


def _sd_accepted(noise: Vector, sd: float) -> bool:
    """Whether the sum of squares lies in the range that chi-square leaves with a chance of only 2e-6."""
    return 1e-6 < float(stats.chi2(noise.size).cdf((noise**2).sum() / sd**2)) < 1 - 1e-6


@pytest.mark.parametrize("t", [0, 3])
@pytest.mark.parametrize("rule", SCALE_RULES)
def test_the_opened_noise_has_the_law_that_the_proof_asks_for(
    rule: str, t: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise, wanted = _noise(rule, t, monkeypatch)
    assert _sd_accepted(noise, wanted)
    assert stats.kstest(noise / wanted, "norm").pvalue > 1e-6
    # The test can fail: with 30 % less or more.
    for off in (0.7, 1.3):
        assert not _sd_accepted(off * noise, wanted)
    if t == 0:
        assert not _sd_accepted(_noise(rule, t, monkeypatch, Fraction(7, 10))[0], wanted)


def test_noise_that_is_sized_for_the_floor_does_not_show_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With "selected" the noise depends on sizes, and the statement says so. With the other two rules it does not."""
    without_classifiers(monkeypatch)
    changed = {}
    for rule in SCALE_RULES:
        study = proven_study(2, 5, rule)
        opened = []
        for sizes in ((20, 40), (30, 30)):
            rngs = {name: SimulationRng(3, name) for name in (*study.names, CHARLIE)}
            opened.append(opened_sum(run(study, make_data(study, sizes), rngs)))
        changed[rule] = opened[0] != opened[1]
    assert changed == {"selected": True, "floor": False, "sizes": False}


@pytest.mark.parametrize(
    ("rule", "sized"),
    [
        ("selected", "It is sized for the smallest party alone, which has 20 records, and at epsilon = 0.05"),
        ("floor", "It is sized as if every party had only min_records = 10, and at epsilon = 0.05"),
        ("sizes", "this noise. At epsilon = 0.05"),
    ],
)
def test_the_advice_on_too_much_noise_says_what_it_is_sized_for_and_is_right(rule: str, sized: str) -> None:
    study = proven_study(3, 4, rule, epsilon=0.05)
    data = make_data(study, (20, 40, 60))
    found = noiseless(study, data, NOTHING)
    assert sized in found.advice
    assert ("or min_records = " in found.advice) == (rule == "floor")
    assert says(found.advice, "more_records_would_do", ...) == (rule != "floor")
    # With the advised epsilon, or so large a min_records, the noise is as small as it has to be, and hardly smaller.
    assert found.enough_epsilon is not None
    others = [proven_study(3, 4, rule, epsilon=found.enough_epsilon)]
    if rule == "floor":
        (least,) = re.findall(r"min_records = ([\d,]+), if every party", found.advice)
        others.append(proven_study(3, 4, rule, epsilon=0.05, min_records=int(least.replace(",", ""))))
    for other in others:
        assert 0.97 * SMALL_NOISE < noiseless(other, data, NOTHING).noise_ratio <= SMALL_NOISE * 1.001
        assert noiseless(other, data, NOTHING).advice == "" or other is others[0]


def test_what_is_expected_of_a_study_names_what_makes_its_noise_smaller() -> None:
    cures = {"selected": "more records in the smallest party", "floor": "a larger min_records", "sizes": "more records"}
    for rule, cure in cures.items():
        text = expectation(proven_study(3, 4, rule, epsilon=0.001)).text
        assert f"It takes {cure}" in text
        assert (says(text, "equally_many")) == (rule == "selected")


# --- Refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": 0}, ("delta_not_in_range", 0)),
        ({"delta": 1e-40}, ("delta_used_up", "1e-40", ...)),
        ({"epsilon": 1e-20, "delta": 1e-30}, ("noise_too_large", ..., ...)),
        ({"regularization": 1e-60}, ("beyond_all_use",)),
        ({"regularization": 5e-324}, ("beyond_all_use",)),
        ({"regularization": 0.0}, ("regularization_needed", 0)),
        ({"regularization": 9e-13}, ("regularization_too_small", ..., ...)),
        (
            {"regularization": 9e-13, "calibration": "paper", "section": "", "epsilon": 1e9},
            ("regularization_too_small", ..., ...),
        ),
        ({"section": 'noise = "laplace"'}, ("all_noise_gaussian", "laplace")),
        ({"section": 'scale = "largest"'}, ("key_of_another_kind", "[protocol] scale", '"largest"', ...)),
        ({"section": 'weights = "n"'}, ("key_of_another_kind", "[protocol] weights", '"n"', ...)),
        ({"calibration": "paper", "section": 'scale = "floor"'}, ("paper_allows_only", "floor", "uniform")),
        ({"calibration": "paper", "section": 'weights = "sizes"'}, ("paper_allows_only", "selected", "sizes")),
    ],
)
def test_a_privacy_target_that_cannot_be_met_is_refused(changes: dict[str, Any], words: tuple[Any, ...]) -> None:
    study = proven_study(**changes)
    with raises(BadInput, *words) as caught:
        protocol_of(study)
    assert caught.value.hint or "[protocol]" in caught.value.message


@pytest.mark.parametrize("rule", SCALE_RULES)
def test_the_largest_noise_that_is_not_refused_fits_the_shortest_key(rule: str) -> None:
    at_most: dict[str, Any] = {"epsilon": 1e-9, "delta": 1e-12, "colluders": 2, "bits": 512}
    smallest = next(
        r for r in (2.0**-e for e in range(200, 0, -1)) if _valid(proven_study(rule=rule, regularization=r, **at_most))
    )
    assert smallest < 1e-15
    assert public.packing(proven_study(rule=rule, regularization=smallest, **at_most)).per_plaintext >= 2


def _valid(study: Study) -> bool:
    try:
        public.packing(study)
    except BadInput:
        return False
    return True


@pytest.mark.parametrize("colluders", [3, 4])
def test_a_study_with_no_honest_party_is_refused(colluders: int) -> None:
    with raises(BadInput, "nobody_honest", ..., ...):
        proven_study(3, colluders=colluders)


def test_the_floor_is_always_known_and_is_two_records_at_least() -> None:
    with raises(BadInput, "key_out_of_range", "[study] min_records", 1, "at least", 2):
        proven_study(3, rule="floor", min_records=1)
    protocol_of(proven_study(3, rule="floor", min_records=2))


@pytest.mark.parametrize("rule", SCALE_RULES)
def test_a_party_with_fewer_records_than_the_floor_does_not_take_part(rule: str) -> None:
    study = proven_study(3, 4, rule, min_records=20)
    data = make_data(study, (20, 19, 21))
    with raises(RefusedLocally, "too_few_for_noise", 20) as caught:
        run(study, data)
    assert "19" not in caught.value.message + caught.value.hint


def test_a_party_with_more_records_than_are_counted_does_not_take_part() -> None:
    noise = public.joint_noise_of(proven_study(3, rule="sizes"))
    jn.check_size(MOST_COUNTED_RECORDS, noise)
    with raises(RefusedLocally, "more_than_worked_out", "1,000,000"):
        jn.check_size(MOST_COUNTED_RECORDS + 1, noise)
    jn.check_size(MOST_COUNTED_RECORDS + 1, public.joint_noise_of(proven_study(3)))


def test_a_number_of_records_that_cannot_be_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    give = additive_shares.give_share

    async def lying(*args: Any) -> Any:
        args = (*args[:4], (-1000, *args[4][1:]), *args[5:])
        return await give(*args)

    monkeypatch.setattr(public_scale, "give_share", lying)
    study = proven_study(2, 3, "sizes")
    with raises(RunFailed, "impossible_count"):
        run(study, make_data(study, (20, 30)))


def test_a_class_that_is_left_out_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    study = proven_study(3, 3)
    send_sealed = Seat.send_sealed

    async def silent(self: Seat, message: Any, *to: Any) -> None:
        if not (isinstance(message, size_class.ClassTerm) and self.me == "p1"):
            await send_sealed(self, message, *to)

    monkeypatch.setattr(Seat, "send_sealed", silent)
    with raises(Exception, "waits_for", "p0", "'ClassTerm'", "p1 and p2"):
        run(study, make_data(study, (20, 30, 40)))


# --- As a study ----------------------------------------------------------------------------------------------


def test_where_a_study_names_no_scale_the_paper_s_stages_run() -> None:
    for section in ("", 'weights = "uniform"'):
        study = proven_study(section=section)
        assert public.joint_noise_of(study).scale_rule == "selected"
        passed = {message.type for message in run(study, make_data(study, (20, 30, 40))).table.passed}
        assert {"PermutedShares", "MatchItems", "Indicator", "SizeClass"} <= passed
    paper = proven_study(calibration="paper", section="")
    protocol_of(paper)
    assert public.selects(paper)
    protocol_of(proven_study(calibration="paper", section='scale = "selected"'))


@pytest.mark.parametrize("rule", SCALE_RULES)
def test_a_new_study_of_this_calibration_is_valid_and_runs(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(capsys)
    path = small_study(
        shell, tmp_path / "study.toml", protocol="local-aggregation", calibration="proven", delta=1e-5, colluders=1
    )
    text = path.read_text(encoding="utf-8")
    assert 'scale = "selected"\n' in text
    assert 'weights = "uniform"\n' in text
    assert "noise =" not in text
    if rule == "floor":
        text = text.replace('scale = "selected"\n', 'scale = "floor"\n')
    elif rule == "sizes":
        text = text.replace('weights = "uniform"\n', 'weights = "sizes"\n')
    path.write_text(text, encoding="utf-8")
    assert shell.json("study", "check", path).code == 0
    explained = shell("study", "show", path)
    assert explained.code == 0
    words = " ".join(explained.err.split())
    assert says(words, "sides_with_charlie", sentence("one_other_party_sides"))
    assert (says(words, "smallest_number_told")) == (rule == "selected")
    assert says(words, "noise_stays")
    assert (says(words, "floor_for_everybody", 20)) == (rule == "floor")
    assert (says(words, "number_of_all_records")) == (rule == "sizes")
    ran = shell.json("simulate", path, "--data", split_csv(tmp_path / "all.csv"), "--by", "site", "--seed", 1)
    assert ran.code == 0, ran.err
    assert ran.data["calibration"] == "proven"
    rows = {row["view"]: row for row in ran.data["statement"]}
    row = rows[sentence("view_of_one_party")]
    assert (row["epsilon"], row["delta"]) == (pytest.approx(1, abs=1e-9), 1e-5)


def test_a_new_study_of_the_paper_s_calibration_is_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_study(Shell(capsys), tmp_path / "study.toml", protocol="local-aggregation", calibration="paper")
    text = path.read_text(encoding="utf-8")
    assert 'calibration = "paper"\n' in text
    assert 'in all directions.\nnoise = "laplace"\n\n' in text
