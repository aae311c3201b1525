"""Published shares and the model file: both open to the classifier, and changed ones are refused."""

import copy
import json
from typing import Any

import pytest

from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import BadInput, MasqueradeError, RunFailed
from masquerade_core.model import Model, model_to_json
from masquerade_core.saved_model import Shares, model_from_json
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import RUN
from tests.messages import raises
from tests.protocol_helpers import make_study

N = (1 << 511) + 0xBAD5EED
F = 20
PACKING = Packing(5, 3 << 22, 512)


def shared(vector: tuple[int, ...], packing: Packing = PACKING, parties: int = 3) -> Shares:
    """Split a vector into K + 1 shares that add up to it."""
    rng = SimulationRng(0)
    names = [f"p{j}" for j in range(parties)]
    values = {name: tuple(rng.below(N) for _ in range(packing.count)) for name in names}
    rest = [
        (v - sum(column)) % N
        for v, column in zip(packing.pack(vector), zip(*values.values(), strict=True), strict=True)
    ]
    return Shares({**values, "charlie": tuple(rest)}, N, packing, parties, F)


VECTOR = (3 << F, -(3 << F), 0, 1, -(3 << 22))


def test_the_shares_add_up_to_k_times_the_weights() -> None:
    shares = shared(VECTOR)
    assert shares.total() == VECTOR
    assert shares.open() == (1.0, -1.0, 0.0, 1 / 3 / 2**F, -4.0)


@pytest.mark.parametrize("missing", ["p0", "p2", "charlie"])
def test_shares_do_not_open_with_one_missing_or_changed(missing: str) -> None:
    shares = shared(VECTOR)
    for other in ((0,), (shares.values[missing][0] ^ 1 << 500,)):
        with raises(RunFailed, "share_missing_or_wrong"):
            Shares({**shares.values, missing: other}, N, PACKING, 3, F).open()


def test_shares_go_through_json() -> None:
    shares = shared(VECTOR)
    text = json.dumps(shares.to_json())
    again = Shares.from_json(json.loads(text))
    assert again == shares
    assert again.open() == shares.open()


def _without(key: str) -> dict[str, Any]:
    return {k: v for k, v in shared(VECTOR).to_json().items() if k != key}


GOOD = shared(VECTOR).to_json()


@pytest.mark.parametrize("key", GOOD)
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "",
        "canary",
        [],
        {},
        -1,
        0,
        10**9,
        2.5,
        "0x0",
        "-0x5",
        [1],
        {"a": 1},
        {"a": ["canary"]},
        True,
        float("inf"),
    ],
    ids=repr,
)
def test_a_corrupt_file_is_bad_input_or_does_not_open(key: str, wrong: object) -> None:
    data = {**copy.deepcopy(GOOD), key: wrong}
    if (key, wrong) == ("fraction_bits", 0):
        return  # another power of two, which nobody can recognize as wrong
    with pytest.raises(MasqueradeError) as caught:
        Shares.from_json(data).open()
    assert caught.value.exit_code in {1, 4}
    assert "canary" not in caught.value.message


@pytest.mark.parametrize("key", GOOD)
def test_a_missing_key_is_bad_input(key: str) -> None:
    with raises(BadInput, "model_shares_malformed"):
        Shares.from_json(_without(key))


def test_too_few_or_many_shares_are_bad_input() -> None:
    rows = GOOD["values"]
    for values in (
        {k: v for k, v in rows.items() if k != "p1"},
        {**rows, "p3": rows["p2"]},
        {**rows, "p1": []},
        {**rows, "p1": rows["p1"] * 2},
    ):
        with raises(BadInput, "model_shares_number"):
            Shares.from_json({**GOOD, "values": values})


@pytest.mark.parametrize("parties", [0, -1])
def test_no_parties_share_nothing(parties: int) -> None:
    values = {"charlie": GOOD["values"]["charlie"]} if parties == 0 else {}
    with raises(BadInput, "model_shares_number"):
        Shares.from_json({**GOOD, "parties": parties, "values": values})


# --- The file ------------------------------------------------------------------


@pytest.fixture
def saved() -> dict[str, Any]:
    study = make_study(3, 5)
    shares = shared(VECTOR)
    data: dict[str, Any] = json.loads(json.dumps(model_to_json(Model(shares.open(), shares), study, RUN)))
    return data


def test_a_model_goes_through_its_file(saved: dict[str, Any]) -> None:
    model = model_from_json(saved)
    assert model.weights == shared(VECTOR).open()
    assert (model.study, model.protocol, model.run_id) == ("test", "local-aggregation", RUN.hex())
    assert (model.epsilon, model.delta) == (1.0, 1e-5)
    assert list(saved["weights"].values()) == list(model.weights)


def test_the_files_own_copy_of_the_weights_is_not_trusted(saved: dict[str, Any]) -> None:
    saved["weights"] = dict.fromkeys(saved["weights"], 77.0)
    assert model_from_json(saved).weights == shared(VECTOR).open()


@pytest.mark.parametrize(
    "key", ["kind", "study", "protocol", "run_id", "epsilon", "delta", "label", "encoder", "release", "shares"]
)
def test_a_file_that_lacks_a_part_is_bad_input(saved: dict[str, Any], key: str) -> None:
    for wrong in ({k: v for k, v in saved.items() if k != key}, {**saved, key: None}):
        if key in {"study", "protocol", "run_id"} and key in wrong:
            continue
        with pytest.raises(BadInput):
            model_from_json(wrong)


def test_a_model_whose_release_is_its_weights_goes_through_json() -> None:
    study = make_study(3, 5)
    weights = (0.5, -1.25, 1e-9, 3.0, 0.0)
    text = json.dumps(model_to_json(Model(weights, None), study, RUN))
    model = model_from_json(json.loads(text))
    assert (model.weights, model.shares) == (weights, None)
    with pytest.raises(BadInput):
        model_from_json({**json.loads(text), "weights": {"x": float("inf")}})


def test_weights_for_other_coordinates_are_bad_input(saved: dict[str, Any]) -> None:
    other = shared((1, 2, 3, 4), Packing(4, 3 << 22, 512))
    with raises(BadInput, "model_weights_number", 4, 5):
        model_from_json({**saved, "shares": other.to_json()})


def test_a_file_whose_shares_do_not_add_up_is_bad_input(saved: dict[str, Any]) -> None:
    """Whoever has the file has no run that could be started again."""
    name, (first, *more) = next(iter(saved["shares"]["values"].items()))
    saved["shares"]["values"][name] = [hex(int(first, 16) ^ 1 << 500), *more]
    with raises(BadInput, "shares_are_no_weights"):
        model_from_json(saved)
