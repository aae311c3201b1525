"""Slots of a plaintext that must hold a sum, however much noise is in it."""

from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import BadInput
from masquerade_core.study import Study

__all__ = ["WIDEST", "check_slots"]

WIDEST = 500
"""Bits of a coordinate; with more, the squared length of a classifier is no float."""


def check_slots(study: Study, slots: Packing, what: str, hint: str) -> Packing:
    """Return the layout of a sum, if a plaintext holds its slots and a float the classifier that is made of it.

    Parameters
    ----------
    study : Study
    slots : Packing
    what : str
        What is summed, as the subject of a sentence.
    hint : str
        What to do.

    Raises
    ------
    BadInput
        No plaintext is wide enough, or no float is large enough.
    """
    if not slots.fits:
        bits = study.crypto.key_bits
        raise BadInput(f"{what} needs slots of {slots.width} bits, but a key of {bits} bits has no room for them", hint)
    if slots.width > WIDEST:
        raise BadInput(f"{what} needs slots of {slots.width} bits, but a slot has at most {WIDEST} bits", hint)
    return slots
