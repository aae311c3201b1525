"""Step 1.6 of Pathak's protocol: Charlie and the lead find the smallest of K shared numbers, by a tournament.

The lead is the party that holds a secret key. It has the list a, and Charlie has the list b. Slot s stands for the
number (a_s + b_s) mod 2^33 < 2^32, and all numbers differ. Each match is one comparison in one direction
(:mod:`masquerade_core.crypto.comparison`). Charlie alone learns its outcome. The lead learns which slots meet next. The
paper compares all pairs in both directions, which would show the whole ranking, and ties. The tournament has ceil(log2
K) rounds. In each, with sizes in bytes::

    Charlie                                   lead
      |-------- MatchBits ---------------------->|   2,048 a match, and 4 for its pair of slots
      |<------- MatchItems ----------------------|   2,113 a match
"""

from collections.abc import Sequence
from functools import partial

from masquerade_core.crypto.comparison import BITS_BYTES, ITEMS_BYTES, DeciderKey, evaluate
from masquerade_core.errors import ProtocolViolation
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import Message, numbers, pack_numbers

__all__ = ["MODULUS", "NUMBER_BITS", "MatchBits", "MatchItems", "answer_matches", "find_smallest", "rounds"]

NUMBER_BITS = 32
MODULUS = 1 << (NUMBER_BITS + 1)  # so that a difference's bit 32 is its sign
_SLOT_BYTES = 2


class MatchBits(Message):
    """Charlie to the lead: the pairs of slots of one round, with his encrypted bits for each pair."""

    pairs: bytes
    bits: bytes


class MatchItems(Message):
    """The lead to Charlie: the blinded items and the clear bit of each match."""

    items: bytes
    clear: bytes


def rounds(K: int) -> int:
    """Return ceil(log2 K)."""
    return (K - 1).bit_length()


def pairings(slots: Sequence[int]) -> list[tuple[int, int]]:
    """Pair the slots that are left. Of an odd number, the last slot goes on without a match."""
    return [(slots[i], slots[i + 1]) for i in range(0, len(slots) - 1, 2)]


def _cut(raw: bytes, width: int) -> list[bytes]:
    return [raw[i : i + width] for i in range(0, len(raw), width)]


# --- The lead -------------------------------------------------------------------


async def answer_matches(seat: Seat, a: Sequence[int], decider: bytes) -> None:
    """Carry out the lead's part: play every round.

    Parameters
    ----------
    seat : Seat
    a : sequence of int
        Its shares by slot, modulo ``MODULUS``.
    decider : bytes
        Charlie's ElGamal key, a checked point.

    Raises
    ------
    ProtocolViolation
        Charlie's fault.
    """
    K = left = len(a)
    for number in range(rounds(K)):
        matches = await seat.receive(MatchBits, CHARLIE)
        slots = numbers(matches.pairs, _SLOT_BYTES, left // 2 * 2, CHARLIE)
        if len(set(slots)) != len(slots) or not set(slots) <= set(range(K)):
            msg = f"charlie paired slots that are not all different, or not all below {K}"
            raise ProtocolViolation(msg, peer=CHARLIE)
        differences = [(a[s] - a[t]) % MODULUS for s, t in pairings(slots)]
        if len(matches.bits) != BITS_BYTES * len(differences):
            msg = (
                f"charlie sent {len(matches.bits)} bytes of encrypted bits, but {len(differences)} matches take "
                f"{BITS_BYTES * len(differences)}"
            )
            raise ProtocolViolation(msg, peer=CHARLIE)
        results = await seat.once(
            f"matches {number}", partial(_play, decider, _cut(matches.bits, BITS_BYTES), differences)
        )
        items, clear = b"".join(items for items, _ in results), bytes(bit for _, bit in results)
        await seat.send(CHARLIE, MatchItems(items=items, clear=clear))
        left = -(-left // 2)


def _play(decider: bytes, bits: Sequence[bytes], differences: Sequence[int], rng: Rng) -> tuple[tuple[bytes, int], ...]:
    """Evaluate the matches of one round: (items, clear bit) for each."""
    return tuple(evaluate(rng, decider, bits_i, x, CHARLIE) for bits_i, x in zip(bits, differences, strict=True))


# --- Charlie ----------------------------------------------------------------------


async def find_smallest(seat: Seat, lead: str, b: Sequence[int], decider: DeciderKey) -> int:
    """Carry out Charlie's part: play every round, and return the slot of the smallest number.

    Raises
    ------
    ProtocolViolation
        The lead's fault.
    """
    left = list(range(len(b)))
    for number in range(rounds(len(b))):
        left = await charlie_round(seat, lead, b, decider, left, number)
    return left[0]


async def charlie_round(
    seat: Seat, lead: str, b: Sequence[int], decider: DeciderKey, left: Sequence[int], number: int
) -> list[int]:
    """Play one round, and return the slots that are left."""
    pairs = pairings(left)
    # Slot s is smaller than t iff bit 32 of (a_s - a_t) - (b_t - b_s) is set.
    y = [(b[t] - b[s]) % MODULUS for s, t in pairs]
    bits = await seat.once(f"bits {number}", lambda rng: b"".join(decider.encrypt_bits(rng, v) for v in y))
    slots = [slot for pair in pairs for slot in pair]
    await seat.send(lead, MatchBits(pairs=pack_numbers(slots, _SLOT_BYTES), bits=bits))
    answer = await seat.receive(MatchItems, lead)
    if len(answer.items) != ITEMS_BYTES * len(pairs) or len(answer.clear) != len(pairs) or max(answer.clear) > 1:
        msg = f"{lead} sent a tournament round that does not have {len(pairs)} matches"
        raise ProtocolViolation(msg, peer=lead)
    items = _cut(answer.items, ITEMS_BYTES)
    zeros = await seat.once(f"zeros {number}", lambda _: tuple(decider.count_zeros(i, lead) for i in items))
    smaller = [z ^ c ^ (v >> NUMBER_BITS & 1) for z, c, v in zip(zeros, answer.clear, y, strict=True)]
    winners = [s if first else t for (s, t), first in zip(pairs, smaller, strict=True)]
    return winners + list(left[2 * len(pairs) :])
