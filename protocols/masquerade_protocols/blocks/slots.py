"""The slots of a plaintext: they must hold a sum, however much noise is in it."""

from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from masquerade_core.words import listed
from masquerade_protocols.blocks.layouts import Layout

__all__ = ["WIDEST", "check_slots"]

WIDEST = 500
"""Bits of a coordinate at most. With more, the squared length of a classifier would exceed every float."""


def check_slots(study: Study, slots: Layout, what: str, *remedies: str) -> Layout:
    """Return the layout of a sum, after a check that plaintexts hold its slots and floats the classifier made of it.

    Parameters
    ----------
    study : Study
    slots : Layout
    what : str
        The sum's name, as the subject of a sentence.
    remedies : str
        What the study's author can ask for instead: "fewer rounds", say. A longer key is added where it helps.

    Raises
    ------
    BadInput
        A slot is too wide for a plaintext, or a coordinate for a float.
    """
    bits = study.key_bits
    if bits and not slots.fits:
        raise BadInput(
            f"{what} needs slots of {slots.width} bits, but a key of {bits} bits has no room for such a slot",
            f"ask for {listed([*remedies, 'a longer key'], 'or')}",
        )
    if slots.width > WIDEST:
        raise BadInput(
            f"{what} needs slots of {slots.width} bits, but at most {WIDEST} are allowed: no float holds the "
            "classifier that would follow",
            f"ask for {listed(remedies, 'or')}",
        )
    return slots
