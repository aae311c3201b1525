"""Settings and strategies that several files of laws use."""

from typing import Any

import msgpack
from hypothesis import settings
from hypothesis import strategies as st

__all__ = ["QUICK", "SLOW", "msgpack_bytes", "plain", "wire_values"]

QUICK = settings(max_examples=150, deadline=None, derandomize=True)
SLOW = settings(max_examples=25, deadline=None, derandomize=True)

_wire_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20) | st.binary(max_size=20)
)
# All kinds of values that messages may contain, at most four levels deep.
wire_values: st.SearchStrategy[Any] = _wire_scalars
for _ in range(3):
    wire_values = _wire_scalars | st.lists(wire_values, max_size=4).map(tuple)
    wire_values |= st.dictionaries(st.text(max_size=5), wire_values, max_size=4)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**3000), 2**3000)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)

_anything = st.recursive(
    _wire_scalars | st.floats() | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=4)),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 300) | st.binary(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


@st.composite
def msgpack_bytes(draw: st.DrawFn) -> bytes:
    """Draw msgpack of any value and perhaps cut, change or lengthen it, as a hostile peer may."""
    data = bytearray(msgpack.packb(draw(_anything)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        what = draw(st.sampled_from(["set", "cut", "insert"]))
        if what == "cut":
            del data[at:]
        elif what == "insert" or not data:
            data[at:at] = draw(st.binary(max_size=6))
        else:
            data[at] = draw(st.integers(0, 255))
    return bytes(data)
