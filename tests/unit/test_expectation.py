"""What can be expected of a model before anybody joins, and how many records or which epsilon would do."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.draft import Draft, throwaway_key
from masquerade_core.errors import BadInput
from masquerade_core.privacy.accounting.gaussian_dp import mu_of
from masquerade_core.privacy.expectation import Expectation, Verdict, expected_of_sums, rounded_up, strength
from masquerade_core.study import AuxiliaryFile, Feature, Study
from masquerade_protocols import PROTOCOLS, protocol_of
from masquerade_protocols.comparing import expected_by_ratio, least_noise_left, longest_classifier
from tests.face_helpers import Shell, small_study
from tests.pages import Page


def _study(protocol: str = "dp-gd", *, columns: int = 10, K: int = 5, **options: Any) -> Study:
    draft = Draft(
        parties=[(f"site-{i}", throwaway_key()) for i in range(K)],
        curator_key=throwaway_key(),
        protocol=protocol,
        features=[Feature(name=f"c{i}", min=0.0, max=1.0) for i in range(columns)],
        intercept=False,
        **{"min_records": 2, "epsilon": 1.0, "delta": 1e-5, "colluders": 0, **options},
    )
    return Study.parse(draft.to_toml(), in_memory=True)


def _of(study: Study) -> Expectation:
    tell = protocol_of(study).expectation
    assert tell is not None
    return tell(study)


# --- Noisy sums over all records -----------------------------------------------------


@pytest.mark.parametrize(("d", "enough"), [(10, 472), (31, 831), (109, 1558), (266, 2434)])
def test_the_records_for_a_useful_threshold_are_those_that_were_measured(d: int, enough: int) -> None:
    """40 sqrt(d)/mu at epsilon = 1, delta = 1e-5."""
    told = expected_of_sums(_study(columns=d, expected_records=5000))
    assert told.enough_records == pytest.approx(enough, abs=1)
    assert expected_of_sums(_study(columns=d, expected_records=enough + 1)).verdict is Verdict.USEFUL
    assert expected_of_sums(_study(columns=d, expected_records=enough - 2)).verdict is Verdict.UNSURE


@pytest.mark.parametrize(
    ("s", "verdict", "words"),
    [
        (41, Verdict.USEFUL, "a useful threshold: its answers yes and no can be used"),
        (39, Verdict.UNSURE, "ranks records, and perhaps a useful threshold"),
        (19, Verdict.RANKS, "ranks records only"),
        (4, Verdict.NOTHING, "nothing: the noise drowns"),
    ],
)
def test_a_study_is_told_what_to_expect_and_what_would_do(s: float, verdict: Verdict, words: str) -> None:
    N = round(s * math.sqrt(10) / mu_of(1.0, 1e-5))
    told = expected_of_sums(_study(expected_records=N))
    assert told.verdict is verdict
    assert told.s == pytest.approx(s, rel=0.05)
    assert words in told.text
    assert told.poor is (s < 20)
    assert told.text.startswith(f"With {N} records, expect ")
    assert ("or epsilon = " in told.text) is (verdict is not Verdict.USEFUL)
    enough = told.enough_epsilon
    assert enough is not None
    assert expected_of_sums(_study(expected_records=N, epsilon=enough)).verdict is Verdict.USEFUL
    assert expected_of_sums(_study(expected_records=N, epsilon=0.85 * enough)).verdict is not Verdict.USEFUL


def test_where_nobody_says_how_many_records_are_expected_the_fewest_count() -> None:
    told = expected_of_sums(_study(min_records=20))
    assert told.records == 100
    assert told.text.startswith("With 100 records (min_records of each party, since [study] expected_records is left ")
    assert expected_of_sums(_study(min_records=20, expected_records=200)).records == 200


def test_noise_against_colluders_costs_records() -> None:
    """All K parties add a share, of which h are enough: the noise grows by sqrt(K/h)."""
    alone, many = (strength(_study(colluders=t), 1000) for t in (0, 4))
    assert many == pytest.approx(alone / math.sqrt(5))


def test_a_number_is_rounded_up_to_two_digits() -> None:
    assert [rounded_up(v) for v in (0.0123, 1.2, 1.2000001, 99.1, 1234.0)] == [0.013, 1.2, 1.3, 100.0, 1300.0]


# --- Other laws ------------------------------------------------------------------------


def _with_points(protocol: str, *, K: int = 5, points: int = 1000, **options: Any) -> Study:
    auxiliary = AuxiliaryFile(file="auxiliary.csv", sha256="0" * 64, records=points)
    return _study(protocol, K=K, auxiliary=auxiliary, **{"regularization": 0.05, **options})


@pytest.mark.parametrize("calibration", ["paper", "proven"])
def test_soft_says_that_five_parties_cannot_learn_adult_however_many_records_they_have(calibration: str) -> None:
    told = _of(_with_points("soft", columns=109, expected_records=26_000, calibration=calibration))
    assert told.verdict is Verdict.NOTHING
    assert "this setting cannot learn" in told.text
    assert "It takes many more parties" in told.text
    assert _of(_with_points("soft", columns=109, expected_records=10**6, calibration=calibration)).ratio == told.ratio


def test_soft_with_many_parties_is_not_told_so() -> None:
    few, many = (_of(_with_points("soft", K=K, calibration="proven")) for K in (5, 500))
    assert few.ratio is not None
    assert many.ratio is not None
    assert few.poor
    assert not many.poor
    assert many.ratio == pytest.approx(few.ratio / 100, rel=0.02)


def test_a_ratio_becomes_a_sentence() -> None:
    study = _study(expected_records=1000)
    said = [
        expected_by_ratio(study, ratio, noise="the noise", beside="the signal", cure="more records")
        for ratio in (0.1, 0.5, 5.0, 1e9)
    ]
    assert [told.verdict for told in said] == [Verdict.UNSURE, Verdict.RANKS, Verdict.NOTHING, Verdict.NOTHING]
    assert said[0].text.endswith("The noise may be as little as 10.0% of the signal.")
    assert said[1].text.endswith("The noise is at least 50% of the signal. It takes more records.")
    assert said[2].text.endswith("The noise is at least 5 times as large as the signal. It takes more records.")
    assert "more than 1,000 times" in said[3].text


def test_no_descent_keeps_less_noise_than_is_said() -> None:
    """Curvatures that add up to c, in many ways: what is left of the noise is never shorter than with equal ones."""
    d, steps, eta, c, penalty, deviation = 10, 200, 2.0, 0.25, 0.01, 0.3
    generator = np.random.default_rng(7)
    least = least_noise_left(deviation, d, steps, eta, c, penalty)
    for h in (np.full(d, c / d), *(c * generator.dirichlet(np.full(d, 0.3), size=50))):
        w = np.zeros((400, d))
        for _ in range(steps):
            w = w - eta * (deviation * generator.normal(size=w.shape) + (h + penalty) * w)
        length = math.sqrt(float(np.mean((w**2).sum(axis=1))))
        assert length > 0.95 * least
        if h.max() == h.min():
            assert length == pytest.approx(least, rel=0.05)
    assert least_noise_left(deviation, d, steps, eta, 0.0, 0.0) == pytest.approx(eta * deviation * math.sqrt(d * steps))


def test_the_longest_classifier_is_the_steps_or_what_the_penalty_allows() -> None:
    assert longest_classifier(_study(regularization=0.0), 7.0) == 7.0
    assert longest_classifier(_study(regularization=1e-6), 7.0) == 7.0
    assert longest_classifier(_study(regularization=0.05), 7.0) < 3


@pytest.mark.parametrize(
    "name", [n for n, entry in PROTOCOLS.items() if "proven" in entry.calibrations and entry.makes_model]
)
def test_more_privacy_is_never_said_to_learn_more(name: str) -> None:
    order = list(Verdict)
    for calibration in PROTOCOLS[name].calibrations:
        make = _with_points if PROTOCOLS[name].auxiliary else _study
        options: dict[str, Any] = {"expected_records": 2000, "calibration": calibration, "regularization": 0.05}
        least, most = (0.31, 30.0) if name == "input-noise" else (0.01, 70.0)  # a label alone takes .3
        found = [order.index(_of(make(name, epsilon=e, **options)).verdict) for e in (least, 0.5, 3.0, most)]
        assert found == sorted(found, reverse=True)
        if name != "input-noise" or calibration == "proven":  # with the paper's noise, alpha says how much there is
            assert found[0] == order.index(Verdict.NOTHING)
            assert found[-1] < found[0]


# --- The study's file, and the commands -------------------------------------------------


def test_a_number_of_records_that_the_parties_cannot_have_is_refused() -> None:
    with pytest.raises(BadInput, match=r"expected_records is 9, but 5 parties with min_records = 2 have 10 to "):
        _study(expected_records=9)
    with pytest.raises(BadInput, match="expected_records is 9999999999, but"):
        _study(expected_records=9_999_999_999)
    assert _study(expected_records=10).study.expected_records == 10


def test_the_number_is_part_of_what_everybody_approves_and_changes_no_study_without_it() -> None:
    with_it = _study(expected_records=10)
    without = with_it.model_copy(update={"study": with_it.study.model_copy(update={"expected_records": None})})
    assert with_it.canonical()["study.expected_records"] == "10"
    assert "study.expected_records" not in without.canonical()
    assert with_it.digest() != without.digest()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def test_check_show_and_doctor_say_what_to_expect(shell: Shell, tmp_path: Path) -> None:
    file = small_study(
        shell, tmp_path / "study.toml", protocol="dp-gd", key_bits=2048, regularization=0.02, expected_records=90
    )
    sentence = "With 90 records, expect a model that ranks records only: it may give all of them the same answer."
    check = shell("study", "check", file)
    assert "is a valid study: dp-gd" in check.err
    assert sentence in check.err
    show = " ".join(shell("study", "show", file).err.split())
    assert f"What to expect of the model • {sentence}" in show
    assert sentence in " ".join(shell("doctor", file).err.split()).replace("note model ", "")
    for command in ("check", "show"):
        told = shell.json("study", command, file).data["expectation"]
        assert told["verdict"] == "ranks only"
        assert told["records"] == 90


def test_a_new_study_shows_where_the_number_belongs(shell: Shell, tmp_path: Path) -> None:
    file = small_study(shell, tmp_path / "study.toml")
    assert "\n# expected_records = 20000\n" in file.read_text()
    assert "\nexpected_records = 70\n" in small_study(shell, tmp_path / "b.toml", expected_records=70).read_text()


# --- The page ------------------------------------------------------------------------------

PAGE = Page("docs/expectation.md")


def test_the_pages_numbers_are_the_program_s() -> None:
    (row,) = (line for line in PAGE.text.splitlines() if line.startswith("| epsilon = 1 |"))
    said = [int(cell.replace(",", "")) for cell in row.strip("| ").split("|")[1:]]
    found = [expected_of_sums(_study(columns=d, expected_records=5000)).enough_records for d in (10, 31, 109, 266)]
    assert [value is not None and abs(value - number) <= 1 for value, number in zip(found, said, strict=True)] == [
        True
    ] * 4
    tenth = expected_of_sums(_study(epsilon=0.1, expected_records=5000)).enough_records
    assert tenth is not None
    assert tenth == pytest.approx(8 * 472, rel=0.05)


def test_the_pages_sentence_is_what_the_program_says() -> None:
    told = expected_of_sums(_study(columns=4, delta=1e-6, expected_records=3000, K=3))
    assert told.text in " ".join(PAGE.text.split())


def test_links_lead_somewhere() -> None:
    assert len(PAGE.links) > 1
    assert PAGE.broken_links == []
