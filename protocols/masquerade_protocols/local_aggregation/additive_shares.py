"""Stage 3 of local aggregation (Pathak, Rane, Raj, section 3.2): K + 1 shares are published, and anybody adds them up.

Share j is the packed vector v_j, minus the blind S_j that hid it before, plus a share of zero z_j, modulo M::

    party P_j                                  Charlie
      |-------- Share: v_j - S_j + z_j ---------->|   m n/8
      |                                           | his own: sum_j S_j, with the noise they hid, + z_C
      |<------- Published: all K + 1 shares ------|   (K+1) m n/8

The sharing of zero uses a key for each pair of participants. To somebody who lacks one such key of a party, that
party's share is uniform modulo M. Even Charlie with the lead, the party that holds a secret key, gets only the sum of
the honest parties' vectors. If a share is missing or wrong, the sum is a uniform number, whose top bits are all zero
only with a chance of 2^-64.
"""

from collections.abc import Sequence

from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import ProtocolViolation
from masquerade_core.saved_model import Shares
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Broadcast, Message, numbers, pack_numbers
from masquerade_protocols.local_aggregation.public import fraction_bits
from masquerade_protocols.local_aggregation.zero_sharing import zero_share

__all__ = ["Published", "Share", "give_share", "publish_shares"]


class Share(Message):
    """Step 3.3, P_j to Charlie: P_j's additive share of the sum."""

    share: bytes


class Published(Broadcast):
    """Step 3.3, Charlie to all: everybody's shares in roster order, his own last."""

    shares: bytes


def _read(raw: bytes, study: Study, modulus: int, layout: Packing) -> Shares:
    values = numbers(raw, _width(modulus), (study.K + 1) * layout.count, CHARLIE)
    rows = {name: values[i * layout.count : (i + 1) * layout.count] for i, name in enumerate((*study.names, CHARLIE))}
    return Shares(rows, modulus, layout, study.K, fraction_bits(study))


def _width(modulus: int) -> int:
    return (modulus.bit_length() + 7) // 8


async def give_share(
    seat: Seat,
    study: Study,
    layout: Packing,
    modulus: int,
    vector: Sequence[int],
    hidden_by: Sequence[int],
    seed: bytes,
) -> Shares:
    """Carry out a party's part: send v_j - S_j + z_j, and read the published shares.

    Parameters
    ----------
    seat, study : Seat, Study
    layout : Packing
        The layout of v_j; it follows from public numbers alone.
    modulus : int
        M, modulo which all shares are numbers.
    vector : sequence of int
        v_j on the grid of 2^-F.
    hidden_by : sequence of int
        S_j, one for each plaintext. Charlie's share puts them back. Zeros where nothing hides the vector.
    seed : bytes
        The coin toss's result, which binds the masks: Charlie cannot choose it.

    Raises
    ------
    ProtocolViolation
        Charlie published a share of this party that is not the one that it had sent.
    """
    await seat.stage("stage 3: shares")
    zeros = zero_share(seat, (*study.names, CHARLIE), seed, modulus, layout.count)
    packed = layout.pack(vector)
    mine = tuple((v - s + z) % modulus for v, s, z in zip(packed, hidden_by, zeros, strict=True))
    await seat.release("shares", study.privacy.epsilon, study.privacy.delta)
    await seat.send(CHARLIE, Share(share=pack_numbers(mine, _width(modulus))))
    published = await seat.receive(Published, CHARLIE)
    shares = _read(published.shares, study, modulus, layout)
    if shares.values[seat.me] != mine:
        msg = f"charlie published a share of {seat.me} that is not the one that {seat.me} had sent"
        raise ProtocolViolation(msg, peer=CHARLIE)
    return shares


async def publish_shares(seat: Seat, study: Study, layout: Packing, modulus: int, own: Sequence[int]) -> Shares:
    """Carry out Charlie's part: publish all K + 1 shares, once they add up.

    Parameters
    ----------
    seat, study, layout, modulus : Seat, Study, Packing, int
        As in :func:`give_share`.
    own : sequence of int
        Charlie's opened numbers: the sum of all S_j, plus the noise that the S_j hide.

    Raises
    ------
    ProtocolViolation
        A party's fault. The error names the party.
    RunFailed
        The opened sum is not the sum of everybody's shares.
    """
    zeros = zero_share(seat, (*study.names, CHARLIE), b"", modulus, layout.count)
    mine = tuple((o + z) % modulus for o, z in zip(own, zeros, strict=True))
    width = _width(modulus)
    shares = await seat.gather(Share, study.names)
    rows = [pack_numbers(numbers(shares[name].share, width, layout.count, name), width) for name in study.names]
    published = b"".join((*rows, pack_numbers(mine, width)))
    released = _read(published, study, modulus, layout)
    released.total()  # raises, and nothing is published, if the sum has no meaning
    await seat.broadcast(Published(shares=published))
    return released
