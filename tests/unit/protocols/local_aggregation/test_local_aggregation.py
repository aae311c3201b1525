"""Local aggregation at the in-memory table: right, private in form, replayable, and with the noise that it claims."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from masquerade_core import seat as seat_module
from masquerade_core.crypto.paillier import Ciphertext, FullPool, PublicKey, SecretKey, ShortPool
from masquerade_core.data.loading import load_records
from masquerade_core.errors import BadInput, LocalProtocolError, ProtocolViolation, RefusedLocally, RunFailed
from masquerade_core.learning.erm import fit, predict_labels
from masquerade_core.model import model_to_json
from masquerade_core.privacy.noise.output_perturbation import paper_beta, paper_scale
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.saved_model import model_from_json
from masquerade_core.seat import Once, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import replay
from masquerade_core.wire import codec
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import Message, encode, unpack_plain, unpack_strict
from masquerade_protocols import protocol_of
from masquerade_protocols.in_memory import roles_of
from masquerade_protocols.local_aggregation import before_join, public
from masquerade_protocols.local_aggregation import roles as la
from masquerade_protocols.local_aggregation.public import FRACTION_BITS
from tests.messages import raises
from tests.protocol_helpers import Run, make_data, make_study, run
from tests.proven_helpers import SCALE_RULES, proven_study


def _weights(r: Run) -> np.ndarray[Any, Any]:
    lam = r.study.model.regularization
    return np.array([fit(x.X, x.y, lam) for x in r.data.values()])


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the noise off; only a test can."""
    monkeypatch.setattr(before_join, "draw_noise", lambda _rng, study, _n: (0,) * study.d)


# --- Right -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(("K", "d"), [(2, 1), (2, 123), (3, 31), (5, 123), (8, 1), (50, 31)])
def test_the_opened_sum_is_the_sum_of_the_local_classifiers(K: int, d: int) -> None:
    study = make_study(K, d)
    r = run(study, make_data(study, [12 + (5 * j) % 17 for j in range(K)]))
    opened = np.array(r.model.weights) * K
    np.testing.assert_allclose(opened, _weights(r).sum(axis=0), rtol=0, atol=2.0**-20)


@pytest.mark.usefixtures("no_noise")
def test_every_participant_opens_the_same_classifier() -> None:
    study = make_study(3, 4, lead=1)
    r = run(study, make_data(study, [15, 12, 20]))
    assert len({model.weights for model in r.results.values()}) == 1
    assert list(r.shares.values) == ["p0", "p1", "p2", CHARLIE]


def _selected_size(sizes: tuple[int, ...], lead: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run with marked noise; return the size of the party whose noise was selected."""
    study = make_study(len(sizes), 1, lead=lead)
    marks: dict[int, int] = {}

    def marked(rng: Rng, _study: Study, n: int) -> tuple[int, ...]:
        marks[mark := rng.bits(20)] = n
        return (mark,)

    monkeypatch.setattr(before_join, "draw_noise", marked)
    monkeypatch.setattr(before_join, "fit_records", lambda _records, _lam: np.zeros(1))
    (selected,) = run(study, make_data(study, sizes)).total
    return marks[selected]


def _orders(K: int) -> list[tuple[int, ...]]:
    """All weak orders of K sizes: every order, with every pattern of ties."""
    ranks = {tuple(sorted(set(p)).index(v) for v in p) for p in itertools.product(range(K), repeat=K)}
    return sorted(ranks)


@pytest.mark.parametrize("K", [2, 3])
def test_the_smallest_party_is_found_for_every_order_and_every_tie(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tests/extras`` has four parties too."""
    for order in _orders(K):
        sizes = tuple(10 + rank for rank in order)
        assert _selected_size(sizes, lead=0, monkeypatch=monkeypatch) == min(sizes), order


def test_whichever_of_four_are_the_smallest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One order for each set of smallest parties: how the others are ordered decides no match of the smallest."""
    by_smallest = {tuple(j for j, rank in enumerate(order) if rank == 0): order for order in _orders(4)}
    assert len(by_smallest) == 15
    for order in by_smallest.values():
        sizes = tuple(10 + rank for rank in order)
        assert _selected_size(sizes, lead=0, monkeypatch=monkeypatch) == 10, order


@pytest.mark.parametrize("lead", range(5))
def test_the_smallest_of_five_is_found_wherever_it_and_the_lead_sit(lead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the five is the smallest under two leads, one of whom is the smallest itself."""
    for smallest in (lead, (lead + 2) % 5):
        sizes = tuple(10 if j == smallest else 10 + 2**j for j in range(5))
        assert _selected_size(sizes, lead=lead, monkeypatch=monkeypatch) == 10


def test_a_size_that_does_not_fit_is_refused_before_the_join(monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study(5, 1)
    assert study.countable == 2**29 - 1
    assert la._size_with_tie(study.countable, 4, study) < 2**32
    monkeypatch.setattr(type(study), "countable", 9)
    role = la.party(Seat("p1", study.names), study, make_data(study, (10,) * 5)["p1"])
    with raises(RefusedLocally, "more_than_can_be_counted", 9, ...):
        role.send(None)


def test_daves_labels_are_those_computed_in_the_clear(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From a file of records through model.json, against the classifiers and the noise that the parties drew."""
    study = make_study(3, 4, epsilon=2.0)
    data = make_data(study, (30, 25, 40))
    draw, drawn = before_join.draw_noise, {}

    def noted(rng: Rng, of: Study, n: int) -> tuple[int, ...]:
        drawn[n] = draw(rng, of, n)
        return drawn[n]

    monkeypatch.setattr(before_join, "draw_noise", noted)
    r = run(study, data)
    rows = np.random.default_rng(1).uniform(-1, 1, size=(200, 4))
    records = tmp_path / "new.csv"
    lines = ["x0,x1,x2,x3", *(",".join(f"{v:.6f}" for v in row) for row in rows)]
    records.write_text("\n".join(lines) + "\n")

    saved = model_from_json(json.loads(json.dumps(model_to_json(r.model, study, r.table.run_id))))
    labels = predict_labels(load_records(records, saved.encoder), np.array(saved.weights))

    w = _weights(r).sum(axis=0) + np.array(drawn[25], dtype=float) / 2**FRACTION_BITS
    X = np.round(rows, 6)
    X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    score = X @ w
    clear = np.abs(score) > 1e-6  # nearer to the boundary, rounding to the grid decides
    assert clear.sum() > 150
    np.testing.assert_array_equal(labels[clear], np.sign(score[clear]))


def test_a_study_whose_noise_fits_no_plaintext_is_bad_input() -> None:
    study = make_study(2, 1, epsilon=1e-150)
    with raises(BadInput, "noise_too_large_for_key", 512):
        protocol_of(study)


# --- A missing or a wrong term fails loudly --------------------------------------------------------


def test_a_share_that_is_not_added_fails_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """P_1's share does not subtract its blind. So the top bits of the sum are not zero."""
    stage_2 = la._stage_2

    async def forgetful(*args: Any) -> tuple[int, ...]:
        blinds = await stage_2(*args)
        return tuple(0 for _ in blinds) if args[0].me == "p1" else blinds

    monkeypatch.setattr(la, "_stage_2", forgetful)
    study = make_study(3, 4)
    with raises(RunFailed, "share_missing_or_wrong"):
        run(study, make_data(study, [12, 13, 14]))


def test_charlie_cannot_publish_another_share_of_a_party(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charlie exchanges two parties' shares. The sum is the same, and still each party misses its own share."""
    broadcast = Seat.broadcast

    async def swapping(self: Seat, message: Message) -> None:
        if isinstance(message, la.Published):
            raw, row = message.shares, len(message.shares) // 4
            message = la.Published(shares=raw[row : 2 * row] + raw[:row] + raw[2 * row :])
        await broadcast(self, message)

    monkeypatch.setattr(Seat, "broadcast", swapping)
    study = make_study(3, 1)
    with raises(ProtocolViolation, "other_share_published", "p0", "p0") as caught:
        run(study, make_data(study, [12, 13, 14]))
    assert caught.value.peer == CHARLIE


# --- Private in form -------------------------------------------------------------------------------


def test_what_charlie_relays_has_the_same_form_for_every_assignment_of_sizes() -> None:
    study = make_study(4, 3)
    forms = {
        tuple(run(study, make_data(study, sizes, seed=sum(i * s for i, s in enumerate(sizes)))).table.passed)
        for sizes in [*itertools.permutations((10, 11, 300, 4000)), (10, 10, 10, 10), (50, 50, 70, 70)]
    }
    assert len(forms) == 1


def test_the_form_of_the_traffic_depends_on_public_numbers() -> None:
    """The test above can fail: another d is another form."""
    forms = set()
    for d in (3, 40):
        study = make_study(3, d)
        forms.add(tuple(run(study, make_data(study, (10, 11, 12))).table.passed))
    assert len(forms) == 2


def test_published_shares_are_uniform() -> None:
    study = make_study(3, 31)
    values = []
    runs = [run(study, make_data(study, (12, 13, 14))) for _ in range(12)]
    for r in runs:
        for row in r.shares.values.values():
            values += [v / r.shares.modulus for v in row]
    assert stats.kstest(values, "uniform").pvalue > 1e-6
    low = np.bincount([int(v * 2**20) % 16 for v in values], minlength=16)
    assert stats.chisquare(low).pvalue > 1e-6
    # The test can fail: a packed classifier without its blind is far from uniform.
    layout = public.packing(study)
    modulus = runs[0].shares.modulus
    bare = [
        v % modulus / modulus for w in _weights(runs[0]).tolist() for v in layout.pack(before_join.encode_weights(w))
    ]
    assert stats.kstest(bare, "uniform").pvalue < 1e-3


def test_what_the_lead_opens_is_blinded_over_the_whole_of_the_plaintext_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lead knows every a_j by name. Under a blind that is not uniform in Z_N it would see Charlie's permutation."""
    opened: list[float] = []
    decrypt = SecretKey.decrypt

    def watched(self: SecretKey, ciphertext: Ciphertext) -> int:
        plain = decrypt(self, ciphertext)
        opened.append(plain / self.public.n)
        return plain

    monkeypatch.setattr(SecretKey, "decrypt", watched)
    study = make_study(2, 1)  # the fewest matches for each value; a blind knows nothing of how many there are
    data = make_data(study, range(12, 14))
    for _ in range(36):
        run(study, data)
    # 2 blinded shares at the lead and one blinded noise at Charlie, each run.
    assert len(opened) == 36 * 3
    assert stats.kstest(opened, "uniform").pvalue > 1e-6


def test_no_obfuscator_serves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = ShortPool._take

    def watched(self: ShortPool) -> Any:
        value = take(self)
        taken.append(int(value))
        return value

    monkeypatch.setattr(ShortPool, "_take", watched)
    study = make_study(3, 31)
    data = make_data(study, (12, 13, 14))
    for _ in range(2):
        run(study, data)
    m = public.packing(study).count
    assert len(taken) == 2 * (3 + 3 + 3 + 3 * m)  # xi twice, zeta for u, zeta for the noise
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize(
    ("make", "least"),
    [(make_study, 50), *((partial(proven_study, rule=rule), 50 if rule == "selected" else 10) for rule in SCALE_RULES)],
)
def test_no_secret_is_in_any_message(make: Callable[..., Study], least: int) -> None:
    """Every drawn value, in every usual spelling, is looked for in every byte on the wire."""
    study = make(3, 2)
    r = run(study, make_data(study, (1201, 1302, 1403)))
    wire = b"\0".join(
        body
        for name in (*study.names, CHARLIE)
        for e in r.table.journal(name)
        if isinstance(e.effect, Send)
        for body in e.effect.bodies
    )
    found, looked = [], 0
    for name in (*study.names, CHARLIE):
        for e in r.table.journal(name):
            if not isinstance(e.effect, Once) or _is_message_part(e.effect.label):
                continue
            for spelling in _spellings(unpack_plain(e.answer)):
                looked += 1
                if spelling in wire:
                    found.append((name, e.effect.label))
    assert not found
    assert looked > least


def _is_message_part(label: str) -> bool:
    """Say whether this value was drawn to be sent as it is. An encryption of 0, for example, is its obfuscator."""
    return label.startswith(("nonces", "bits", "matches", "sealed share", "obfuscators zeta"))


def _spellings(value: Any) -> list[bytes]:
    if isinstance(value, (tuple, list)):
        return [s for v in value for s in _spellings(v)]
    if isinstance(value, bytes) and len(value) >= 8:
        return [value, value.hex().encode()]
    if isinstance(value, int) and value.bit_length() >= 64:
        size = (value.bit_length() + 7) // 8
        return [value.to_bytes(size, "big"), value.to_bytes(size, "little"), str(value).encode(), f"{value:x}".encode()]
    return []


def _integers(value: Any) -> set[int]:
    """All integers that a reader of a decoded body could mean: fields, and byte fields short enough for a size."""
    if isinstance(value, dict):
        return set().union(*(_integers(v) for v in value.values()))
    if isinstance(value, tuple):
        return set().union(*(_integers(v) for v in value))
    if isinstance(value, bytes):
        return {int.from_bytes(value, "big"), int.from_bytes(value, "little")} if len(value) <= 8 else set()
    return {value}


def test_no_decoded_field_is_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (1201, 1302, 1403)
    study = make_study(3, 2)
    data = make_data(study, sizes)

    def fields() -> set[int]:
        r = run(study, data)
        return {
            i
            for name in (*study.names, CHARLIE)
            for e in r.table.journal(name)
            if isinstance(e.effect, Send) and e.effect.kind == "message"
            for body in e.effect.bodies
            for i in _integers(unpack_strict(body, name))
        } | {int.from_bytes(e, "big") for e in opened}

    opened: list[bytes] = []

    def noted(plain: bytes, peer: str, expected: tuple[str, str, str, int]) -> bytes:
        body = codec.open_envelope(plain, peer, expected)
        opened.extend(v for v in unpack_strict(body, peer).values() if len(v) <= 8)
        return body

    monkeypatch.setattr(seat_module, "open_envelope", noted)
    with_ties = {la._size_with_tie(n, rank, study) for n in sizes for rank in range(3)}
    assert not fields() & (with_ties | set(sizes))
    assert len(opened) == 2

    # The test can fail: a "share" that is the size itself is found in its box at the lead.
    monkeypatch.setattr(la, "share", lambda _rng, value, _modulus: (value, 0))
    assert fields() & with_ties


# --- Replayable ------------------------------------------------------------------------------------


def test_every_role_replays_byte_for_byte() -> None:
    study = make_study(4, 5)
    data = make_data(study, (12, 13, 14, 15))
    r = run(study, data)
    for name, role in roles_of(la, r.table, study, data).items():
        journal = r.table.journal(name)
        again = replay(role, journal)
        assert again.result == r.results[name]
        assert again.sent == tuple(e.effect for e in journal if isinstance(e.effect, Send))


def test_a_replay_notices_changed_data() -> None:
    study = make_study(2, 2)
    data = make_data(study, (12, 13))
    r = run(study, data)
    journal = r.table.journal("p1")
    changed = [
        type(e)(e.effect, e.answer[:-1] + bytes((e.answer[-1] ^ 1,)))
        if isinstance(e.effect, Once) and e.effect.label == "blinds S"
        else e
        for e in journal
    ]
    with raises(LocalProtocolError, "replay_differs", ..., ..., ...):
        replay(la.party(r.table.seat("p1"), study, data["p1"]), changed)


def test_two_runs_share_no_randomness() -> None:
    study = make_study(3, 3)
    data = make_data(study, (12, 13, 14))
    drawn = []
    for _ in range(2):
        r = run(study, data)
        drawn.append(
            {
                s
                for name in (*study.names, CHARLIE)
                for e in r.table.journal(name)
                if isinstance(e.effect, Once) and e.effect.label != "classifier"
                for s in _spellings(unpack_plain(e.answer))
            }
        )
    assert len(drawn[0]) > 100
    assert not drawn[0] & drawn[1]


def test_a_seeded_simulation_repeats_itself() -> None:
    study = make_study(3, 3)
    data = make_data(study, (12, 13, 14))
    totals = [
        run(study, data, {name: SimulationRng(seed, name) for name in (*study.names, CHARLIE)}).total
        for seed in (1, 1, 2)
    ]
    assert totals[0] == totals[1] != totals[2]


# --- The noise is the noise ------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "runs", "d"), [("laplace", 10, 615), ("l2", 6, 615)])
def test_the_opened_noise_has_the_law_of_the_smallest_party(
    noise: str, runs: int, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many runs x 615 coordinates through the whole protocol that a scale 30 % off is rejected.

    Absolute values of coordinates have the law Gamma(1), and a norm has Gamma(d). So whatever the noise, their sum has
    Gamma(runs x 615): its standard deviation is at most 2 % of its mean, and 30 % are 13 of them or more.
    """
    K, sizes = 3, (40, 25, 60)
    study = make_study(K, d, noise=noise)
    data = make_data(study, sizes)
    lam = study.model.regularization
    known = {id(x.X): fit(x.X, x.y, lam) for x in data.values()}
    monkeypatch.setattr(before_join, "fit_records", lambda records, _lam: known[id(records.X)])
    total = [
        sum(column) for column in zip(*(before_join.encode_weights(w.tolist()) for w in known.values()), strict=True)
    ]
    grid = Fraction(1, K << FRACTION_BITS)
    eta = np.array(
        [[float((t - k) * grid) for t, k in zip(run(study, data).total, total, strict=True)] for _ in range(runs)]
    )

    if noise == "laplace":
        unit = float(paper_scale(min(sizes), study.privacy.epsilon, lam))
        sample, law, total_size = eta.ravel(), stats.laplace(0, unit), float(np.abs(eta).sum())
    else:
        unit = 1 / float(paper_beta(min(sizes), study.privacy.epsilon, lam))
        sample, law = np.linalg.norm(eta, axis=1), stats.gamma(d, 0, unit)
        total_size = float(sample.sum())
    assert stats.kstest(sample, law.cdf).pvalue > 1e-6
    of_total = stats.gamma(runs * d, 0, unit)
    assert 1e-6 < of_total.cdf(total_size) < 1 - 1e-6
    for off in (0.7, 1.3):
        assert not 1e-6 < of_total.cdf(off * total_size) < 1 - 1e-6


def test_ciphertexts_made_for_the_lead_cannot_go_to_charlie() -> None:
    """Only a ciphertext made for its recipient leaves. The seat's tests have the rest."""
    key = PublicKey((2**255 - 19) * (2**127 - 1))
    pool = FullPool(key, key.full_obfuscators(SystemRng(), 1))
    message = la.NoiseTotal(total=Ciphertexts.outgoing([pool.encrypt(1, "p0")]))
    with raises(LocalProtocolError, "ciphertexts_not_fresh", "charlie", ...):
        encode(message, CHARLIE)
