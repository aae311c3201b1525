"""The forecast of a model's quality before a run, and the number of records or the epsilon that would be enough."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.draft import Draft, throwaway_key
from masquerade_core.errors import BadInput
from masquerade_core.evaluation import count_sd, counts_noise
from masquerade_core.learning.expected_intervals import expected_reach
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.expectation import PROMISES, Expectation, Verdict, expected_of_sums, rounded_up, strength
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS as VOTE_BITS
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import AuxiliaryFile, Feature, Label, Study
from masquerade_protocols import PROTOCOLS, entry_of
from masquerade_protocols.comparing import expected_by_ratio, least_noise_left, longest_classifier
from masquerade_protocols.summary import public
from masquerade_protocols.voting.public import noise_of as votes_noise_of
from tests.face_helpers import Shell, small_study
from tests.messages import raises, says
from tests.pages import Page


def _study(protocol: str = "dp-gd", **options: Any) -> Study:
    return Study.parse(_text(protocol, **options), in_memory=True)


def _text(protocol: str = "dp-gd", *, columns: int = 10, K: int = 5, **options: Any) -> str:
    draft = Draft(
        parties=[(f"site-{i}", throwaway_key()) for i in range(K)],
        curator_key=throwaway_key(),
        protocol=protocol,
        intercept=False,
        **{
            "features": [Feature(name=f"c{i}", min=0.0, max=1.0) for i in range(columns)],
            "min_records": 2,
            "epsilon": 1.0,
            "delta": 1e-5,
            "colluders": 0,
            **options,
        },
    )
    return draft.to_toml()


def _of(study: Study) -> Expectation:
    tell = entry_of(study).expectation
    assert tell is not None
    return tell(study)


# --- Noisy sums over all records -----------------------------------------------------


@pytest.mark.parametrize(("d", "enough"), [(10, 472), (31, 831), (109, 1558), (266, 2434)])
def test_the_records_for_half_of_what_can_be_learned_are_those_that_were_measured(d: int, enough: int) -> None:
    """40 sqrt(d)/mu at epsilon = 1, delta = 1e-5."""
    told = expected_of_sums(_study(columns=d, expected_records=5000))
    assert told.enough_records == pytest.approx(enough, abs=1)
    assert expected_of_sums(_study(columns=d, expected_records=enough + 1)).verdict is Verdict.HALF
    assert expected_of_sums(_study(columns=d, expected_records=enough - 2)).verdict is Verdict.BETTER


@pytest.mark.parametrize(
    ("s", "verdict", "words"),
    [
        (41, Verdict.HALF, "expect at least half of what these columns tell without privacy."),
        (39, Verdict.BETTER, "expect better answers than always the same one if these columns tell much; how much "),
        (6.3, Verdict.BETTER, "expect better answers than always the same one if these columns tell much; how much "),
        (
            5.7,
            Verdict.OPEN,
            "nothing can be promised, not even better answers than always the same one; look at the result.",
        ),
    ],
)
def test_a_study_is_told_what_to_expect_and_what_would_do(s: float, verdict: Verdict, words: str) -> None:
    N = round(s * math.sqrt(10) / mu_of(1.0, 1e-5))
    told = expected_of_sums(_study(expected_records=N))
    assert told.verdict is verdict
    assert told.s == pytest.approx(s, rel=0.05)
    assert told.text.startswith(f"With {N} records, {words}")
    assert told.poor is (verdict is Verdict.OPEN)
    assert ("or epsilon = " in told.text) is (verdict is not Verdict.HALF)
    enough = told.enough_epsilon
    assert enough is not None
    assert expected_of_sums(_study(expected_records=N, epsilon=enough)).verdict is Verdict.HALF
    assert expected_of_sums(_study(expected_records=N, epsilon=0.85 * enough)).verdict is not Verdict.HALF


def _rare(share: float | None, **options: Any) -> Study:
    study = _study(**options)
    return study.model_copy(update={"study": study.study.model_copy(update={"commoner_share": share})})


def test_a_rare_outcome_takes_more_records_where_the_study_says_how_rare_it_is() -> None:
    """A tenth of the records: 4 * .9 * .1 = .36."""
    unsaid, even, rare = (expected_of_sums(_rare(p, expected_records=1000)) for p in (None, 0.5, 0.9))
    assert [told.verdict for told in (unsaid, even, rare)] == [Verdict.HALF, Verdict.HALF, Verdict.BETTER]
    assert even.enough_records == unsaid.enough_records == 472
    assert rare.enough_records == pytest.approx(471.9 / 0.36, abs=1)
    assert rare.s == unsaid.s
    assert says(rare.text, "commoner_share_counts", "0.9", 31)
    assert not says(unsaid.text, "commoner_share_counts", ..., ...)
    assert rare.enough_epsilon is not None
    assert rare.enough_records is not None
    assert expected_of_sums(_rare(0.9, expected_records=1000, epsilon=rare.enough_epsilon)).verdict is Verdict.HALF
    assert expected_of_sums(_rare(0.9, expected_records=rare.enough_records + 1)).verdict is Verdict.HALF


@pytest.mark.parametrize("share", [0.49, 1.0])
def test_the_commoner_label_has_half_of_the_records_or_more_but_not_all(share: float) -> None:
    text = _text().replace("[study]\n", f"[study]\ncommoner_share = {share}\n", 1)
    with pytest.raises(BadInput, match="commoner_share"):
        Study.parse(text, in_memory=True)
    said = text.replace(f"commoner_share = {share}", "commoner_share = 0.5")
    assert Study.parse(said, in_memory=True).study.commoner_share == 0.5


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
    assert says(told.text, "cannot_learn_at_all")
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
    assert [told.verdict for told in said] == [Verdict.UNSURE, Verdict.NOISY, Verdict.NOTHING, Verdict.NOTHING]
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
            assert order[found[0]] in {Verdict.OPEN, Verdict.NOTHING}
            assert found[-1] < found[0]


# --- Counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("colluders", [0, 1, 4])
def test_the_noise_on_a_count_that_is_told_is_that_of_the_draws(colluders: int) -> None:
    """Statistics of 10 columns with 32 cells each and of a label: one record moves 11 histograms."""
    study = _study("summary", expected_records=3000, colluders=colluders)
    told = _of(study)
    share, rng = public.noise_of(study).share, SimulationRng(7)
    draws = sum(np.array(discrete_gaussian(rng, share, 4000), dtype=float) for _ in range(study.K))
    sd = float(np.std(draws)) / (1 << public.COUNT_BITS)
    assert told.ratio == pytest.approx(sd / (3000 / 32), rel=0.05)
    exact = math.sqrt(2 * 11) / mu_of(1.0, 1e-5) * math.sqrt(5 / (5 - colluders))
    assert f"carries noise of standard deviation {exact:.0f}, and the 32 bins of the column 'c0' hold 94 " in told.text


@pytest.mark.parametrize(
    ("records", "verdict", "words"),
    [
        (200, Verdict.NOTHING, "nothing of the single counts: most of them are noise"),
        (1000, Verdict.COARSE, "coarse counts: the noise is a good part of most of them"),
        (9000, Verdict.COUNTS, "counts that show where the records lie"),
    ],
)
def test_statistics_are_told_what_to_expect_and_what_would_do(records: int, verdict: Verdict, words: str) -> None:
    told = _of(_study("summary", expected_records=records))
    assert (told.verdict, told.about) == (verdict, "statistics")
    assert told.poor is (verdict is not Verdict.COUNTS)
    assert words in told.text
    assert told.enough_records is not None
    assert told.enough_epsilon is not None
    assert _of(_study("summary", expected_records=told.enough_records)).verdict is Verdict.COUNTS
    assert _of(_study("summary", expected_records=round(0.95 * told.enough_records))).verdict is Verdict.COARSE
    if told.poor:
        assert told.text.endswith(f"or epsilon = {told.enough_epsilon:g}, or fewer cells.")
        enough = _of(_study("summary", expected_records=records, epsilon=told.enough_epsilon))
        assert enough.verdict is Verdict.COUNTS


def test_the_bins_that_are_told_are_those_of_the_finest_column() -> None:
    levels = Feature(name="job", levels=tuple("abcdefgh"))
    edges = Feature(name="size", edges=(1.0, 2.0, 3.0))
    study = _study("summary", features=[levels, edges], expected_records=800)
    assert says(_of(study).text, "bins_of_column", 8, "the column 'job'", 100)
    few = _study("summary", features=[edges], expected_records=800)
    assert says(_of(few).text, "bins_of_column", 4, "the column 'size'", 200)


def _measuring(records: int, **more: Any) -> Expectation:
    return _of(
        _study("evaluation", columns=3, parameters={"weights": [1.0, 0.0, 0.0]}, expected_records=records, **more)
    )


def test_an_evaluation_is_told_how_far_its_intervals_would_reach() -> None:
    told = [_measuring(records) for records in (100, 1200, 20_000)]
    assert [one.verdict for one in told] == [Verdict.NOTHING, Verdict.COARSE, Verdict.COUNTS]
    assert [one.poor for one in told] == [True, True, False]
    assert all(one.about == "evaluation" for one in told)
    sd = count_sd(counts_noise(1.0, 1e-5, 5), 5)
    assert f"carries noise of standard deviation {sd:.3g}." in told[0].text
    assert told[2].ratio == pytest.approx(expected_reach(20_000, sd))
    needed = told[1].enough_records
    assert needed is not None
    assert f"{needed:,} records would do, or a larger epsilon." in told[1].text
    assert _measuring(needed).verdict is Verdict.COUNTS
    assert _measuring(round(0.9 * needed)).verdict is Verdict.COARSE


def test_an_evaluation_of_named_classes_is_told_of_the_error_alone() -> None:
    label, weights = Label(name="kind", classes=("a", "b", "c")), {"weights": [0.5] * 9}
    few, many = (
        _of(_study("evaluation", columns=3, label=label, parameters=weights, expected_records=n)) for n in (200, 50_000)
    )
    assert (few.verdict, many.verdict) == (Verdict.COARSE, Verdict.COUNTS)
    assert "intervals of the error" in many.text
    assert few.ratio is not None
    assert many.ratio is not None
    assert few.ratio > 5 * many.ratio


def test_votes_are_told_the_noise_on_a_count() -> None:
    study = _with_points("vote", calibration="proven", colluders=1)
    deviation = math.sqrt(5 * float(votes_noise_of(study).share) ** 2) / (1 << VOTE_BITS)
    assert f"Every count of at most 5 votes carries noise of standard deviation {deviation:.2g}." in _of(study).text
    assert "votes carries" not in _of(_with_points("vote", calibration="paper")).text


# --- The study's file, and the commands -------------------------------------------------


def test_a_number_of_records_that_the_parties_cannot_have_is_refused() -> None:
    with raises(BadInput, "expected_records_refused", 9, "5 parties", 2, 10):
        _study(expected_records=9)
    with raises(BadInput, "expected_records_refused", 9999999999, ..., ..., ...):
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
        shell, tmp_path / "study.toml", protocol="dp-gd", key_bits=2048, regularization=1e-4, expected_records=90
    )
    sentence = f"With 90 records, {PROMISES[Verdict.BETTER]}."
    check = shell("study", "check", file)
    assert says(check.err, "study_valid", "dp-gd")
    assert sentence in check.err
    show = " ".join(shell("study", "show", file).err.split())
    assert f"What to expect of the model • {sentence}" in show
    assert sentence in " ".join(shell("doctor", file).err.split()).replace("note model ", "")
    for command in ("check", "show"):
        told = shell.json("study", command, file).data["expectation"]
        assert told["verdict"] == "better than one answer"
        assert told["records"] == 90
    signed = shell("study", "show", file, "--format", "html").out
    assert f"<p>{sentence} " in signed
    assert f"{sentence.removeprefix('With 90 records, e').replace('xpect', 'Expect', 1)}" in signed


def test_of_a_regression_the_width_of_each_interval_is_said_before_the_run(shell: Shell, tmp_path: Path) -> None:
    file = str(tmp_path / "study.toml")
    columns = ["--feature", "age:20:80", "--feature", "stage:i,ii,iii", "--label", "ill:yes", "--party", "a"]
    asked = ["--for", "coefficients", "--party", "b", "--throwaway-keys", "--expected-records", "30000"]
    shell("study", "new", "--output", file, *columns, *asked)
    data = shell.json("study", "show", file).data
    assert data["n_features"] == 2  # columns, and neither levels nor coordinates
    told = data["expectation"]
    assert [row["name"] for row in told["intervals"]] == ["(intercept)", "age", "stage=ii", "stage=iii"]
    text = " ".join(shell("study", "show", file).err.split())
    signed = shell("study", "show", file, "--format", "html").out
    assert told["assumed"] in text
    assert told["assumed"] in signed
    for row in told["intervals"]:
        assert f"{row['name']} {row['width']:.2g} {row['odds']:.3g} times" in text
        assert f'<th scope="row">{row["name"]}</th><td>{row["width"]:.2g}</td>' in signed


def test_a_new_study_is_told_beforehand_that_it_can_learn_little_or_that_counts_are_noise(
    shell: Shell, tmp_path: Path
) -> None:
    columns = ["--feature", "age:0:120", "--label", "ill:yes", "--party", "a", "--party", "b", "--throwaway-keys"]
    asked: tuple[tuple[list[str | int], str], ...] = (
        (["--expected-records", 300], "With 300 records, expect better answers than always the same one"),
        (
            ["--min-records", 10, "--protocol", "dp-gd"],
            "nothing can be promised, not even better answers than always the same one; look at the result",
        ),
        (
            ["--protocol", "summary"],
            "expect nothing of the single counts: most of them are noise. Every count carries",
        ),
        (["--protocol", "weighted-dp", "--min-records", 20], "expect nothing: this setting cannot learn"),
    )
    for number, (words, said) in enumerate(asked):
        answer = shell.json("study", "new", "--output", tmp_path / f"{number}.toml", *columns, *words)
        poor = number > 0
        assert (said in answer.json["message"]) is poor
    many = shell.json("study", "new", "--output", tmp_path / "m.toml", *columns, "--expected-records", 90_000)
    assert "With 90,000 records" not in many.json["message"]
    example = shell.json("study", "new", "--output", tmp_path / "e.toml", "--protocol", "summary")
    assert "expect" not in example.json["message"]


def test_statistics_and_evaluations_are_not_called_models(shell: Shell, tmp_path: Path) -> None:
    file = small_study(shell, tmp_path / "study.toml", protocol="summary", key_bits=2048)
    show = " ".join(shell("study", "show", file).err.split())
    assert "What to expect of the statistics • With 60 records (min_records of each party," in show
    assert shell.json("study", "show", file).data["expectation"]["about"] == "statistics"
    assert "note statistics With 60 records" in " ".join(shell("doctor", file).err.split())


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
    usual: dict[str, Any] = {"columns": 4, "delta": 1e-6, "K": 3, "colluders": 1}
    said = " ".join(PAGE.text.split())
    assert expected_of_sums(_study(expected_records=3000, **usual)).text in said
    assert _of(_study("summary", expected_records=300, **usual)).text in said


def test_links_lead_somewhere() -> None:
    assert len(PAGE.links) > 1
    assert PAGE.broken_links == []
