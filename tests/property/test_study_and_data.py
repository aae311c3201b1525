"""Laws of the study file, the encoder and the bounds on noise."""

import json
import string
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from masquerade_core.data.schema import Encoder
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.discrete_laplace import tail_bound
from masquerade_core.study import Feature, PublicKeys, Study

_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
_ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_NAME = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8).filter(lambda n: n != "charlie")
_REAL = st.floats(-1e100, 1e100)
_EDGES = st.sets(_REAL, min_size=1, max_size=5)
_JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), _ANY),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_ANY, inner, max_size=3)),
    max_leaves=5,
)


@st.composite
def features(draw: st.DrawFn) -> tuple[Feature, ...]:
    """Draw features of every kind whose coordinates have different names."""
    names = draw(st.lists(_TEXT, min_size=1, max_size=4, unique=True))
    out = []
    for name in names:
        kind = draw(st.sampled_from(["bounds", "bins", "bounded bins", "levels"]))
        if kind == "bounds":
            low, high = sorted((draw(_REAL), draw(_REAL)))
            assume(low < high)
            out.append(Feature(name=name, min=low, max=high))
        elif kind == "bins":
            out.append(Feature(name=name, edges=tuple(sorted(draw(_EDGES)))))
        elif kind == "bounded bins":
            low, *edges, high = sorted(draw(st.sets(_REAL, min_size=3, max_size=6)))
            out.append(Feature(name=name, min=low, max=high, edges=tuple(edges)))
        else:
            levels = draw(st.lists(_TEXT, min_size=2, max_size=3, unique=True))
            out.append(Feature(name=name, levels=tuple(levels)))
    coordinates = [c for f in out for c in f.coordinates]
    assume(len(set(coordinates)) == len(coordinates) and "(intercept)" not in coordinates)
    return tuple(out)


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Draw a study."""
    names = draw(st.lists(_NAME, min_size=2, max_size=5, unique=True))
    keys = [str(PublicKeys(bytes([i]) * 32, bytes([i + 100]) * 32)) for i in range(len(names) + 1)]
    columns = draw(features())
    label = draw(_TEXT)
    assume(label not in {f.name for f in columns})
    data: dict[str, Any] = {
        "study": {
            "name": draw(_NAME),
            "protocol": "local-aggregation",
            "min_parties": draw(st.integers(2, len(names))),
            "lead": draw(st.sampled_from(names)),
            "min_records": draw(st.integers(2, 10**6)),
            "deadline_seconds": draw(st.floats(0.1, 1e9)),
            "nonce": draw(st.text(string.ascii_letters + "-_", min_size=16, max_size=64)),
        },
        "privacy": {
            "epsilon": draw(st.floats(1e-300, 1e300)),
            "delta": draw(st.floats(0, 1, exclude_max=True)),
            "calibration": "paper",
        },
        "model": {"regularization": draw(st.floats(1e-300, 1e300)), "intercept": draw(st.booleans())},
        "crypto": {"key_bits": draw(st.sampled_from([2048, 3072]))},
        "protocol": draw(st.dictionaries(_ANY, _JSON, max_size=3)),
        "label": {"name": label, "positive": draw(_TEXT)},
        "feature": [f.model_dump(exclude_none=True) for f in columns],
        "curator": {"address": "tcp://[::1]:5555", "key": keys[-1]},
        "party": [{"name": n, "key": k} for n, k in zip(names, keys[:-1], strict=True)],
    }
    return Study.model_validate(data)


@settings(deadline=None)  # a busy machine must not fail a law
@given(studies())
def test_a_study_survives_its_own_toml(study: Study) -> None:
    again = Study.parse(study.to_toml())
    assert again == study
    assert again.digest() == study.digest()
    assert again.field_hashes() == study.field_hashes()


@settings(deadline=None)
@given(features(), st.booleans(), st.data())
def test_records_land_in_the_unit_ball(columns: tuple[Feature, ...], intercept: bool, data: st.DataObject) -> None:
    encoder = Encoder(columns, intercept)
    n = data.draw(st.integers(1, 5))
    cells = {}
    for f in columns:
        numbers = st.floats(f.min, f.max, allow_nan=False, allow_infinity=False)
        values = st.sampled_from(f.levels) if f.levels else numbers.map(repr)
        cells[f.name] = data.draw(st.lists(values, min_size=n, max_size=n))
    X = encoder.encode(cells)
    assert X.shape == (n, encoder.d) == (n, len(encoder.names))
    assert (np.linalg.norm(X, axis=1) <= 1 + 1e-12).all()
    # A record is encoded the same alone, among others, and by an encoder that went through JSON.
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    alone = np.vstack([again.encode({name: [column[i]] for name, column in cells.items()}) for i in range(n)])
    np.testing.assert_allclose(alone, X, rtol=1e-15, atol=0)


@settings(deadline=None)
@given(_EDGES, st.data())
def test_bins_are_those_of_numpy_and_every_number_lies_in_its_own(edges: set[float], data: st.DataObject) -> None:
    ordered = sorted(edges)
    feature = Feature(name="x", edges=tuple(ordered))
    number = _REAL | st.sampled_from(ordered)  # with the edges themselves, where errors are likely
    values = data.draw(st.lists(number, min_size=1, max_size=8))
    X = Encoder((feature,), intercept=False).encode({"x": [repr(v) for v in values]})
    assert X.shape == (len(values), len(edges) + 1) == (len(values), len(set(feature.coordinates)))
    np.testing.assert_array_equal(X, np.eye(len(edges) + 1)[np.digitize(values, ordered)])
    for x, row in zip(values, X, strict=True):
        bin_ = int(row.argmax())
        assert all(e <= x for e in ordered[:bin_])
        assert all(x < e for e in ordered[bin_:])


@settings(deadline=None)
@given(st.floats(1e-300, 1e300))
def test_decimals_are_what_the_file_shows(x: float) -> None:
    assert float(as_fraction(x)) == x


@settings(deadline=None)
@given(st.fractions(Fraction(1, 1000), 2**70), st.integers(1, 200), st.integers(1, 80))
def test_a_tail_bound_grows_with_scale_count_and_confidence(scale: Fraction, count: int, bits: int) -> None:
    bound = tail_bound(scale, bits, count)
    assert tail_bound(scale * 2, bits, count) >= bound
    assert tail_bound(scale, bits + 1, count) >= bound
    assert tail_bound(scale, bits, count + 1) >= bound
    assert bound >= 0
