"""Stage 2 with calibration "proven" and ``scale = "selected"``: the smallest party's size class, announced and checked.

Sizes fall into public classes, four for each doubling: class k begins at N_k = min_records 2^(k/4). Party P_j has the
class k_j, the last one with N_k <= n_j. Stage 1 and Charlie's indicator u are the paper's, so v_j encrypts a 1 for the
smallest party and a 0 for every other. Where the paper's parties then select a noise, these select a class::

    party P_j                                  Charlie                  lead P_L
  2.2 |~~~~~~~ ClassTerm: v_j (k_j + 2^7) ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~>|   2n/8 + 40
  2.3 |                                           |<------ ClassTotal -------|   sum_j v_j (k_j + 2^7) + 2^8 rho
  2.4 |<------ SizeClass: k ----------------------|------ SizeClass: k ----->|   1
      | refuse unless k <= k_j                    |                          |
  3.3 |------- Share: W_j + x_j + z_j ----------->|                          |

P_j then draws its share of noise x_j for N_k records. **The check in 2.4 carries the proof**, and nothing before it
does: an honest party adds noise only if it is enough for its own records. Whatever indicator Charlie sent, however the
lead played, and whatever class a party claimed, k is either too small, and the noise larger than it need be, or it is
refused. The masks z_j are bound to k, so parties that were told different classes open nothing.

rho is uniform and nearly as long as the key. It hides all but the lowest 8 bits of the total, which would show more
than one class if u held more than one 1. The offset 2^7 makes all exponents equally long.
"""

from typing import Annotated

from pydantic import Field

from masquerade_core.crypto.paillier import Ciphertext, FullPool, PublicKey, SecretKey
from masquerade_core.errors import SumRefused
from masquerade_core.privacy.noise.joint_gaussian import SIZE_CLASSES
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import Broadcast, Message, SealedMessage

__all__ = ["ClassTerm", "ClassTotal", "SizeClass", "announce_class", "draw_ahead", "select_class"]

_CLASS_BITS = 8  # of an opened class with its offset
_OFFSET = SIZE_CLASSES


class ClassTerm(SealedMessage):
    """Step 2.2, P_j to the lead: zeta(v_j (k_j + 2^7))."""

    term: Ciphertexts


class ClassTotal(Message):
    """Step 2.3, the lead to Charlie: zeta(k + 2^7 + 2^8 rho)."""

    total: Ciphertexts


class SizeClass(Broadcast):
    """Step 2.4, Charlie to all: k, the smallest party's size class."""

    k: Annotated[int, Field(ge=0, lt=SIZE_CLASSES)]


async def draw_ahead(seat: Seat, zeta: PublicKey) -> FullPool:
    """Draw the obfuscator of step 2.2 while others are busy with stage 1."""
    return FullPool(zeta, await seat.once("obfuscators", lambda rng: zeta.full_obfuscators(rng, 1)))


async def select_class(seat: Seat, study: Study, pool: FullPool, v_j: Ciphertext, k_j: int) -> int:
    """Carry out a party's part, the lead's included: steps 2.2 to 2.4. Return k, for which this party may add noise.

    Parameters
    ----------
    seat, study : Seat, Study
    pool : FullPool
        From :func:`draw_ahead`.
    v_j : Ciphertext
        zeta(1) at the smallest party, zeta(0) elsewhere.
    k_j : int
        The class of this party's own records.

    Raises
    ------
    SumRefused
        Noise for the announced class would be too little for this party's records. A party, the lead or Charlie broke
        the rules, and nobody can tell who. Nothing of this party's classifier has left.
    """
    zeta = v_j.key
    term = Ciphertext(zeta, await seat.once("size class", lambda _: (v_j * (k_j + _OFFSET)).to_int()))
    if seat.me != study.lead:
        await seat.send_sealed(ClassTerm(term=Ciphertexts.outgoing([pool.rerandomize(term, study.lead)])), study.lead)
    else:
        for name, message in (await seat.gather(ClassTerm)).items():
            (received,) = message.term.read(zeta, 1, name)
            term = term + received
        rho = await seat.once("rho", lambda rng: rng.below((zeta.n >> _CLASS_BITS) - 1))
        total = pool.rerandomize(term + (rho << _CLASS_BITS), CHARLIE)
        await seat.send(CHARLIE, ClassTotal(total=Ciphertexts.outgoing([total])))
    k = (await seat.receive(SizeClass, CHARLIE)).k
    if k > k_j:
        raise SumRefused(
            "the announced size class asks for less noise than this party's records need. A party, the lead or "
            "Charlie broke the rules, and nobody can tell which; nothing of the classifier has left this machine",
            'ask the coordinator for a study with scale = "floor", which selects nothing',
        )
    return k


async def announce_class(seat: Seat, study: Study, zeta: SecretKey) -> None:
    """Carry out Charlie's part: open the lead's total, and tell everybody the class.

    Raises
    ------
    SumRefused
        The total holds no class. A party or the lead broke the rules, and nobody can tell who.
    """
    (total,) = (await seat.receive(ClassTotal, study.lead)).total.read(zeta.public, 1, study.lead)
    opened = await seat.once("size class", lambda _: zeta.decrypt(total) % (1 << _CLASS_BITS))
    if opened < _OFFSET:
        raise SumRefused(
            "the opened number is not a size class: a party or the lead broke the rules, and nobody can tell which",
            'start a study with scale = "floor", which selects nothing',
        )
    await seat.broadcast(SizeClass(k=opened - _OFFSET))
