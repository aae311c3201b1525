"""Vote and soft: counts, minimisers and noise are the paper's, and nothing but w_p reaches a party."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from masquerade.simulation import simulate
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, LocalProtocolError, ProtocolViolation, RunFailed
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.seat import Once, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study, check_section
from masquerade_core.table import Entry, Table, replay
from masquerade_core.wire.codec import pack_plain
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.in_memory import roles_of, run_in_memory
from masquerade_protocols.voting import counting, public, roles
from masquerade_protocols.voting.noiseless import clean_votes
from tests.helpers import primes
from tests.messages import raises
from tests.sum_helpers import drawn, received, sent
from tests.vote_helpers import Array, Fixed, Voted, by_scikit_learn, cast, descriptor, points_of, vote_data, vote_study

F = 1 << public.FRACTION_BITS
MIXED = ("tree(max_depth=3)", "forest(n_estimators=5)", "svm", "logistic", None)


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise."""
    monkeypatch.setattr(roles, "l2_laplace", lambda _rng, _beta, d, _unit: [0] * d)


@pytest.fixture
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key in every run, where there are many."""
    monkeypatch.setattr(ss, "draw_primes", lambda _rng, bits: primes(bits))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The counts of Charlie in each run."""
    seen: list[Any] = []
    counts = counting.exact_counts

    def watched(study: Study, counters: tuple[int, ...]) -> Any:
        seen.append(counts(study, counters))
        return seen[-1]

    monkeypatch.setattr(roles, "exact_counts", watched)
    return seen


def _tally(r: Voted) -> Any:
    """The oracle: everybody's votes, counted class by class."""
    return np.stack([(r.votes == k).sum(axis=0) for k in range(r.study.classes or 2)], axis=1)


# --- Right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [None, 2, 4])
@pytest.mark.parametrize("K", [2, 5, 20])
def test_charlie_counts_what_was_voted(K: int, classes: int | None, counted: list[Any]) -> None:
    study = vote_study(K=K, classes=classes, N=300)
    r = cast(study, classifiers=[MIXED[j % 5] for j in range(K)])
    assert r.votes.shape == (K, 300)
    np.testing.assert_array_equal(counted[0], _tally(r))
    assert counted[0].sum(axis=1).tolist() == [K] * 300
    assert len(np.unique(counted[0])) > 1


@pytest.mark.parametrize("classes", [None, 3])
def test_extremes_are_counted(classes: int | None, counted: list[Any]) -> None:
    """All for one class, point by point: a slot is wide enough for M."""
    study = vote_study(K=20, classes=classes, N=60)
    votes = np.tile(np.arange(classes) if classes else [-1, 1], 60)[:60]
    cast(study, classifiers=[Fixed(votes)] * 20)
    np.testing.assert_array_equal(counted[0], 20 * np.eye(classes or 2)[votes if classes else (votes + 1) // 2])


def test_a_party_may_bring_any_object(counted: list[Any]) -> None:
    study = vote_study(K=3)
    r = cast(study, classifiers=[SVC(kernel="linear"), DecisionTreeClassifier(), Fixed(np.ones(30))])
    np.testing.assert_array_equal(counted[0], _tally(r))
    assert r.votes[2].all()


@pytest.mark.parametrize("classes", [None, 4, 8])
@pytest.mark.parametrize("Lambda", [3.0, 0.1, 0.001])
def test_the_longest_minimiser_that_there_can_be_fits_what_is_sent(
    Lambda: float, classes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a minimiser (Lambda/2) |w|^2 is at most the risk of w = 0: 1, or log C for C named classes."""
    monkeypatch.setattr(public, "l2_tail_bound", lambda *_: 0)
    longest = math.sqrt(2 * max(1.0, math.log(classes or 2)) / Lambda)
    assert public.Grid.of(vote_study(Lambda=Lambda, classes=classes)).bound >= longest * F


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("classes", [None, 4])
@pytest.mark.parametrize("protocol", ["vote", "soft"])
@pytest.mark.parametrize("Lambda", [0.1, 0.001])
def test_without_noise_the_minimiser_is_released_to_everybody(
    protocol: str, classes: int | None, Lambda: float
) -> None:
    study = vote_study(protocol, K=5, classes=classes, N=80, Lambda=Lambda)
    r = cast(study, classifiers=MIXED)
    counts = _tally(r)
    alpha = counts / 5 if protocol == "soft" else np.eye(counts.shape[1])[counts.argmax(axis=1)]
    w = by_scikit_learn(study, points_of(study).X, alpha).ravel()
    np.testing.assert_allclose(r.w, w, rtol=0, atol=1e-6)
    assert {model.weights for model in r.results.values()} == {tuple(r.w)}
    # The test can fail: the other protocol's labels make another classifier.
    other = np.eye(counts.shape[1])[counts.argmax(axis=1)] if protocol == "soft" else counts / 5
    assert np.linalg.norm(by_scikit_learn(study, points_of(study).X, other).ravel() - w) > 1e-3


@pytest.mark.usefixtures("quiet")
def test_two_named_classes_are_softmax_in_the_studys_order() -> None:
    study = vote_study("soft", K=3, classes=2)
    r = cast(study)
    W = r.w.reshape(2, study.d)
    np.testing.assert_allclose(W[0], -W[1], rtol=0, atol=1e-6)
    counts = _tally(r)
    # Softmax of two classes with (lambda/2) |W|^2 is logistic regression of w_1 - w_0 with half the lambda.
    halved = study.model_copy(update={"model": study.model.model_copy(update={"regularization": 0.05})})
    w = by_scikit_learn(halved, points_of(study).X, counts / 3)[0]
    np.testing.assert_allclose(W[1] - W[0], w, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("quiet")
def test_the_smoothed_hinge_is_minimised_as_well() -> None:
    study = vote_study("soft", K=5, loss="smoothed-hinge", N=80)
    r = cast(study)
    alpha = _tally(r)[:, 1] / 5
    X, lam, h = points_of(study).X, study.model.regularization, 0.5

    def slope(m: Array) -> Array:
        v = 1 - m
        inside = v**3 / (4 * h**3) - 3 * v / (4 * h) - 0.5
        return np.where(v > h, -1.0, np.where(v < -h, 0.0, inside))

    m = X @ r.w
    gradient = X.T @ (alpha * slope(m) - (1 - alpha) * slope(-m)) / len(X) + lam * r.w
    assert np.linalg.norm(gradient) < 1e-8
    assert np.linalg.norm(r.w) > 0.01


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("classes", [None, 2, 3])
@pytest.mark.parametrize("protocol", ["vote", "soft"])
def test_what_a_demonstration_compares_with_is_what_a_run_without_noise_releases(
    protocol: str, classes: int | None
) -> None:
    study = vote_study(protocol, K=3, classes=classes, N=40)
    data = vote_data(study)
    clean = clean_votes(study, data, {}, points_of(study))
    np.testing.assert_allclose(clean, cast(study, data).w, rtol=0, atol=1e-9)


# --- Labels ----------------------------------------------------------------------------------------


def test_a_tie_is_for_the_positive_label_as_in_equation_6_and_else_for_the_class_that_stands_first() -> None:
    counts = np.array([[2, 2], [3, 1], [1, 3]])
    assert counting.majority(counts, positive=True).argmax(axis=1).tolist() == [1, 0, 1]
    assert counting.majority(counts, positive=False).argmax(axis=1).tolist() == [0, 0, 1]
    several = np.array([[1, 2, 2], [2, 1, 2], [0, 0, 5], [2, 2, 1]])
    assert counting.majority(several, positive=False).argmax(axis=1).tolist() == [1, 0, 2, 0]
    np.testing.assert_array_equal(counting.fractions(several)[1], [0.4, 0.2, 0.4])


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("classes", [None, 3])
def test_a_tie_in_a_run(classes: int | None) -> None:
    """All points tied: the classifier is that of one label everywhere."""
    first, second = (0, 1) if classes else (1, -1)
    votes = [Fixed(np.full(30, first)), Fixed(np.full(30, second))]
    study = vote_study("vote", K=2, classes=classes)
    tied = cast(study, classifiers=votes).w
    unanimous = cast(study, classifiers=votes[:1] * 2).w
    np.testing.assert_array_equal(tied, unanimous)
    assert np.linalg.norm(tied - cast(study, classifiers=votes[1:] * 2).w) > 0.1


@pytest.mark.parametrize(
    ("K", "classes", "may"), [(2, None, True), (3, None, False), (3, 2, False), (4, 2, True), (3, 3, True)]
)
def test_a_study_of_votes_that_can_be_tied_says_who_wins(K: int, classes: int | None, may: bool) -> None:
    study = vote_study("vote", K=K, classes=classes, section="")
    public.check(vote_study("vote", K=K, classes=classes))
    public.check(vote_study("soft", K=K, classes=classes))
    if not may:
        public.check(study)
        return
    with raises(BadInput, "can_be_tied", f"{K} parties that vote", classes or 2) as caught:
        public.check(study)
    assert 'ties = "first"' in caught.value.hint


# --- The noise is the paper's ------------------------------------------------------------------------


def _noise(study: Study, runs: int, monkeypatch: pytest.MonkeyPatch) -> Array:
    """The noise that Charlie adds to the minimiser, run by run: shape (runs, outputs d)."""
    rng, seen = SimulationRng(7), []
    data, votes = vote_data(study), [Fixed(np.full(3, 0 if study.multiclass else 1))] * study.K
    monkeypatch.setattr(roles, "l2_laplace", lambda _rng, *law: l2_laplace(rng, *law))
    # The same votes each time, so what differs is the noise; the sum is not what is tested here.
    monkeypatch.setattr(ss.PaillierPartySums, "_masks", lambda _self, _bound_to, count: [0] * count)
    for _ in range(runs):
        r = cast(study, data, votes)
        w_s = np.array(drawn(r.table, CHARLIE, "minimiser")) / F
        seen.append(r.w - w_s)
        assert r.results["p0"].weights == tuple(r.w)
    return np.array(seen)


SQRT2 = math.sqrt(2)


@pytest.mark.usefixtures("one_key")
@pytest.mark.parametrize(
    ("protocol", "classes", "private", "beta"),
    [
        ("vote", None, False, 0.1 * 0.2 / 2),
        ("soft", None, False, 2 * 0.1 * 0.2 / 2),
        ("vote", 3, False, 0.1 * 0.2 / SQRT2),
        ("soft", 3, False, 2 * 0.1 * 0.2 / SQRT2),
        ("vote", None, True, 0.1 * 0.2 / 2),
        ("soft", None, True, 2 * 0.1 * 0.2 / 2 * 3 / (3 + 2 - 1)),
    ],
)
def test_the_noise_has_a_gamma_norm_at_the_papers_rate(
    protocol: str, classes: int | None, private: bool, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = f"private_auxiliary = {str(private).lower()}" + ('\nties = "first"' if protocol == "vote" else "")
    study = vote_study(protocol, K=2, d=48, N=3, classes=classes, section=section)
    assert float(public.beta(study)) == pytest.approx(beta, rel=1e-12)
    assert public.beta(study) <= (beta * (1 + 1e-12))
    runs = 20
    noise = _noise(study, runs, monkeypatch)
    dimensions = 48 * (classes or 1)
    assert noise.shape == (runs, dimensions)
    norms = beta * np.linalg.norm(noise, axis=1)
    assert stats.kstest(norms, stats.gamma(dimensions).cdf).pvalue > 1e-4
    # A sum of n norms is a Gamma variate of n times the dimension, which is sharp enough for a scale.
    law = stats.gamma(dimensions * runs)
    assert 1e-4 < law.cdf(norms.sum()) < 1 - 1e-4
    for off in (0.7, 1.3):
        assert not 1e-4 < law.cdf(off * norms.sum()) < 1 - 1e-4


def test_private_auxiliary_data_take_the_factor_of_section_4_5() -> None:
    for K, N in ((2, 30), (20, 30), (20, 1)):
        plain, private = (
            public.beta(vote_study("soft", K=K, N=N, section=f"private_auxiliary = {on}")) for on in ("false", "true")
        )
        assert plain / private == Fraction(N + K - 1, N)
        sections = (f'ties = "first"\nprivate_auxiliary = {on}' for on in ("false", "true"))
        assert len({public.beta(vote_study("vote", K=K, N=N, section=s)) for s in sections}) == 1


# --- Private in form ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_key")
@pytest.mark.parametrize("classes", [None, 4])
def test_a_partys_messages_contain_no_vote(classes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened with the lead's key, each contribution is a uniform number modulo n."""

    def shown() -> tuple[list[float], int]:
        parts: list[float] = []
        bare = 0
        for seed in range(4):
            study = vote_study(K=5, classes=classes, N=600)
            r = cast(study, vote_data(study, seed=seed))
            key = r.secret.public
            for name, votes in zip(study.names, r.votes.tolist(), strict=True):
                (message,) = sent(r.table, name, ss.Contribution)
                opened = r.secret.decrypt_all(message.terms.read(key, r.layout.count, name))
                parts += [v / key.n for v in opened]
                with contextlib.suppress(RunFailed):
                    bare += r.layout.unpack(opened, key.n, contributors=1) == tuple(counting.counters_of(study, votes))
        return parts, bare

    parts, bare = shown()
    assert stats.kstest(parts, "uniform").pvalue > 1e-6
    assert bare == 0
    # The test can fail: without masks they are the votes.
    monkeypatch.setattr(ss.PaillierPartySums, "_masks", lambda _self, _bound_to, count: [0] * count)
    parts, bare = shown()
    assert stats.kstest(parts, "uniform").pvalue < 1e-6
    assert bare == 4 * 5


def test_a_party_gets_the_model_and_nothing_of_the_counts() -> None:
    r = cast(vote_study(K=3))
    for name in r.study.names:
        got = [kind for _, kind, _ in received(r.table, name)]
        assert got == ["SumKey", *(["BlindedTotal"] if name == r.study.lead else []), "Released"]


def test_the_form_of_the_traffic_depends_on_public_numbers() -> None:
    study = vote_study(K=3, N=200)
    forms = set()
    for seed, n in enumerate((10, 40, 200)):
        forms.add(tuple(cast(study, vote_data(study, n, seed), ["tree", "svm", None]).table.passed))
    assert len(forms) == 1
    other = vote_study(K=3, N=400)
    assert tuple(cast(other).table.passed) not in forms


def test_a_party_votes_before_it_joins() -> None:
    """Afterwards, the time that training takes would tell its number of records."""
    r = cast(vote_study(K=2))
    labels = [getattr(e.effect, "label", type(e.effect).__name__) for e in r.table.journal("p1")]
    assert labels.index("votes") < labels.index("Join")
    assert [label for label, _ in ((s, None) for n, s in r.table.stages if n == "p1")] == list(
        descriptor(r.study).stages
    )


def test_every_role_replays_byte_for_byte_and_trains_nothing_anew() -> None:
    study = vote_study("vote", K=3, classes=3)
    data, classifiers = vote_data(study), dict(zip(study.names, ("forest(n_estimators=3)", "tree", None), strict=True))
    r = cast(study, data, classifiers)
    chosen: dict[str, Any] = {"classifiers": classifiers, "auxiliary": points_of(study)}
    for name, role in roles_of(roles, r.table, study, data, **chosen).items():
        journal = r.table.journal(name)
        again = replay(role, journal)
        assert again.result == r.results[name]
        assert again.sent == tuple(e.effect for e in journal if isinstance(e.effect, Send))
    # It can fail: with other votes in the journal, other bytes would leave.
    others = drawn(cast(study, vote_data(study, seed=9), classifiers).table, "p1", "votes")
    changed = [
        Entry(e.effect, pack_plain(others)) if isinstance(e.effect, Once) and e.effect.label == "votes" else e
        for e in r.table.journal("p1")
    ]
    with raises(LocalProtocolError, "replay_differs", ..., ..., ...):
        replay(roles.party(r.table.seat("p1"), study, data["p1"], points_of(study), "tree"), changed)


def test_seeded_runs_are_the_same_run() -> None:
    study = vote_study(K=3)

    def released(seed: int) -> tuple[float, ...]:
        rngs = {name: SimulationRng(seed, name) for name in (*study.names, CHARLIE)}
        return cast(study, classifiers=["forest(n_estimators=3)"] * 3, rngs=rngs).results[CHARLIE].weights

    assert released(1) == released(1) != released(2)


# --- Refused -----------------------------------------------------------------------------------------


def _edited(study: Study, **model: Any) -> Study:
    return study.model_copy(update={"model": study.model.model_copy(update=model)})


@pytest.mark.parametrize(
    ("change", "classes", "message"),
    [
        ({"loss": "sigmoid"}, None, ("loss_not_convex", "sigmoid")),
        ({"regularization": 0.0}, None, ("regularization_needed", 0)),
        ({"loss": "smoothed-hinge"}, 3, ("classes_need_logistic", ...)),
        (
            {"regularization": 1e-160},
            None,
            ("weight_has_too_many_bits", ..., 500),
        ),
    ],
)
def test_a_study_that_cannot_be_carried_out_is_refused(
    change: Any, classes: int | None, message: tuple[Any, ...]
) -> None:
    study = vote_study(classes=classes)
    public.check(study)
    with raises(BadInput, *message):
        public.check(_edited(study, **change))


def test_more_parties_than_a_slot_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    study = vote_study()
    monkeypatch.setattr(Study, "K", 1 << 460)
    with raises(BadInput, "no_room_for_slot", f"a count of {1 << 460:,} votes", ..., 512):
        public.check(study)


@pytest.mark.parametrize(
    ("protocol", "section", "message"),
    [
        ("soft", 'ties = "first"', ("unknown_key", "[protocol]", "ties", ...)),
        ("vote", 'ties = "last"', ("key_of_another_kind", "[protocol] ties", '"last"', ...)),
        ("vote", 'tie = "first"', ("did_you_mean", "ties")),
        ("soft", 'unseen_classes = "allow"', ("unknown_key", "[protocol]", "unseen_classes", ...)),
        ("soft", "private_auxiliary = 1", ("key_of_another_kind", "[protocol] private_auxiliary", 1, ...)),
    ],
)
def test_a_section_that_is_wrong_is_explained(protocol: str, section: str, message: tuple[Any, ...]) -> None:
    study = vote_study(protocol, section=section)
    with raises(BadInput, *message):
        check_section(descriptor(study).parameters, study.protocol, "protocol")


def test_without_auxiliary_data_there_is_no_run() -> None:
    study = vote_study()
    with raises(BadInput, "auxiliary_not_given"):
        simulate(study, vote_data(study))
    others = Auxiliary.from_unit_ball(points_of(study).X[::-1])
    for role in (
        roles.party(Seat("p1", study.names), study, vote_data(study)["p1"], others),
        roles.charlie(Seat(CHARLIE, study.names), study, others),
    ):
        with raises(BadInput, "other_auxiliary", ..., ...):
            role.send(None)
    with raises(BadInput, "key_missing", "[protocol] auxiliary"):
        check_section(descriptor(study).parameters, {}, "protocol")


@pytest.mark.parametrize("classes", [None, 3])
def test_a_party_that_never_saw_a_class_votes_like_all_others(classes: int | None) -> None:
    study = vote_study(K=3, classes=classes)
    data = vote_data(study)
    some = data["p1"].y != (1 if classes is None else 2)
    data["p1"] = Dataset(data["p1"].X[some], data["p1"].y[some], classes)
    r = cast(study, data, ["tree", "svm", None])
    assert r.w.shape == (4 * (classes or 1),)
    if classes is None:
        assert not r.votes[1].any()


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        ("oak", ("no_such_classifier", "'oak'")),
        (object(), ("no_such_method", ..., "fit")),
        (Fixed(np.zeros(30)), ("voted_for_no_class",)),
        (Fixed(np.ones(29)), ("not_one_vote_each", 30)),
        (Fixed(np.ones(30), ["yes", "no"]), ("knows_other_classes",)),
        (Fixed(None), ("not_one_vote_each", ...)),
        ("svm(gamma=1e400)", ("settings_not_accepted", "SVC", ...)),
    ],
)
def test_a_classifier_that_will_not_do_stops_its_party_before_anything_is_sent(
    classifier: Any, message: tuple[Any, ...]
) -> None:
    study = vote_study(K=2)
    table = Table(study.names)
    with raises(BadInput, *message):
        run_in_memory(
            roles,
            study,
            vote_data(study),
            table=table,
            classifiers={"p1": classifier},
            auxiliary=points_of(study),
        )
    assert not table.passed
    assert not any(type(e.effect).__name__ in {"Join", "Send"} for e in table.journal("p1"))


@pytest.mark.parametrize("counter", [-1, 4])
def test_totals_that_are_no_votes_end_the_run(counter: int) -> None:
    study = vote_study(K=3)
    with raises(RunFailed, "not_the_votes", 3):
        counting.exact_counts(study, (counter,) * 30)
    three = vote_study(K=3, classes=3)
    counting.exact_counts(three, (1, 2) * 30)
    with raises(RunFailed, "not_the_votes", 3):
        counting.exact_counts(three, (2, 2) * 30)


def test_noise_beyond_what_is_sent_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    study = vote_study(K=2)
    most = public.Grid.of(study).bound
    assert public.Grid.of(study).unpack(public.Grid.of(study).pack((most, -most, 0, 1))) == (most, -most, 0, 1)
    monkeypatch.setattr(roles, "l2_laplace", lambda _rng, _beta, d, _unit: [2 * most] * d)
    with raises(RunFailed, "noise_on_weight_too_large"):
        cast(study)


def test_a_model_of_another_length_is_charlies_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = public.Grid.pack
    monkeypatch.setattr(public.Grid, "pack", lambda self, weights: pack(self, weights)[:-1])
    with pytest.raises(ProtocolViolation) as caught:
        cast(vote_study(K=2))
    assert caught.value.peer == CHARLIE
