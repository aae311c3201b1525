"""The hash that binds a round's masks to N and the iterate is the same on every machine."""

from __future__ import annotations

import hashlib

import numpy as np

from masquerade_protocols.blocks.descent import fingerprint


def test_a_fingerprint_is_the_same_on_machines_of_either_byte_order() -> None:
    w = np.array([0.5, -1.25, 3.0])
    assert fingerprint(100, w.astype(">f8")) == fingerprint(100, w.astype("<f8")) == fingerprint(100, w)
    assert (
        fingerprint(100, w).hex() == hashlib.sha256((100).to_bytes(16, "big") + w.astype("<f8").tobytes()).hexdigest()
    )


def test_a_fingerprint_tells_numbers_and_iterates_apart() -> None:
    w = np.array([0.5, -1.25, 3.0])
    assert (
        len({fingerprint(100), fingerprint(101), fingerprint(100, w), fingerprint(101, w), fingerprint(100, -w)}) == 5
    )
