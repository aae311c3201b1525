"""Local aggregation as the paper's text describes it, with plain phe: the measure for this program's costs.

Each coordinate has a ciphertext of its own, each ciphertext that is sent has a fresh obfuscator, and each pair of slots
takes a comparison of bits under Paillier. Where the paper leaves a choice, this version gets the cheaper one: sizes are
shared modulo 2^33 (wide integer shares would make the comparisons 114 bits long), each pair is compared in one
direction, and no message is handled at all. It multiplies the selected noise by K after decryption, as the paper does.
That leaves the released sum on a lattice, which is one of the reasons why the real protocol differs.

References
----------
Pathak, Rane, Raj, NIPS 2010, section 3.2. Damgard, Geisler, Kroigaard 2008 for the comparison.
"""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from phe import EncryptedNumber, PaillierPrivateKey, PaillierPublicKey, generate_paillier_keypair

from masquerade_core.crypto.shares import random_permutation, share
from masquerade_core.rng import Rng

__all__ = ["Keys", "SumSeconds", "aggregate", "compare", "sum_up"]

_BITS = 32
_M = 1 << (_BITS + 1)
_BLIND_BITS = 128
_SHARE_BITS = 256  # of Stage 3's blinds and additive shares: 128 more than any value


@dataclass(frozen=True)
class Keys:
    """The parties' key xi and Charlie's key zeta; key generation is not measured."""

    xi: PaillierPublicKey
    xi_secret: PaillierPrivateKey
    zeta: PaillierPublicKey
    zeta_secret: PaillierPrivateKey

    @classmethod
    def draw(cls, bits: int) -> "Keys":
        """Generate both pairs."""
        return cls(*generate_paillier_keypair(n_length=bits), *generate_paillier_keypair(n_length=bits))


def _sent(value: EncryptedNumber) -> EncryptedNumber:
    """Return what the recipient gets: phe obfuscates a ciphertext when it is taken out for sending."""
    return EncryptedNumber(value.public_key, value.ciphertext(be_secure=True))


def compare(rng: Rng, keys: Keys, x: int, y: int) -> bool:
    """Say whether x - y, modulo 2^33, is negative: the lead holds x, Charlie y, and Charlie learns it."""
    # Charlie.
    low_y = [_sent(keys.zeta.encrypt(y >> i & 1)) for i in reversed(range(_BITS))]

    # The lead.
    s = 1 - 2 * rng.bits(1)
    differing: EncryptedNumber | None = None
    items = []
    for y_i, x_i in zip(low_y, (x >> i & 1 for i in reversed(range(_BITS))), strict=True):
        item = -1 * y_i + (s + x_i)
        items.append(item if differing is None else item + 3 * differing)
        xor = 1 + -1 * y_i if x_i else y_i
        differing = xor if differing is None else differing + xor
    assert differing is not None
    items.append(differing + (s == 1))
    blinded = [_sent(item * (1 + rng.bits(_BLIND_BITS))) for item in items]
    shuffled = [blinded[i] for i in random_permutation(rng, len(blinded))]
    clear = (x >> _BITS & 1) ^ (s == -1)

    # Charlie.
    zeros = sum([keys.zeta_secret.decrypt(item) == 0 for item in shuffled])
    return bool(zeros ^ clear ^ (y >> _BITS & 1))


def _stage_1(rng: Rng, keys: Keys, sizes: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Return Charlie's slot of the smallest data set in pi1's order, and pi1."""
    K = len(sizes)
    # Steps 1 and 2.
    pi1 = random_permutation(rng, K)
    shares = [share(rng, sizes[j], _M) for j in pi1]
    # Step 3.
    sent = [_sent(keys.xi.encrypt(a)) for a, _ in shares]
    # Step 4.
    r = [rng.bits(_BITS + 1 + _BLIND_BITS) for _ in range(K)]
    pi2 = random_permutation(rng, K)
    returned = [_sent(sent[i] + r[i]) for i in pi2]
    b = [(shares[i][1] - r[i]) % _M for i in pi2]
    # Step 5.
    a = [keys.xi_secret.decrypt(c) % _M for c in returned]
    # Step 6, "for each (i, j) pair": who loses no comparison is the smallest; ties go to the later slot.
    losers = set()
    for s, t in itertools.combinations(range(K), 2):
        losers.add(t if compare(rng, keys, (a[s] - a[t]) % _M, (b[t] - b[s]) % _M) else s)
    (smallest,) = set(range(K)) - losers
    return pi2[smallest], pi1


def _stage_2(keys: Keys, slot: int, pi1: Sequence[int], noise: Sequence[Sequence[int]]) -> list[EncryptedNumber]:
    """Return psi, one ciphertext per coordinate."""
    K = len(noise)
    u = [_sent(keys.zeta.encrypt(int(i == slot))) for i in range(K)]
    v = {j: u[i] for i, j in enumerate(pi1)}
    psi_j = [[_sent(v[j] * eta) for eta in noise[j]] for j in range(K)]
    return [sum(column[1:], column[0]) for column in zip(*psi_j, strict=True)]


def _stage_3(rng: Rng, keys: Keys, psi: Sequence[EncryptedNumber], weights: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the K + 1 additive shares of K w^s, modulo 2^256."""
    K, ring = len(weights), 1 << _SHARE_BITS
    # Step 1: P_1 alone knows s.
    s = [rng.bits(_SHARE_BITS // 2) for _ in psi]
    blinded = [_sent(c + s_i) for c, s_i in zip(psi, s, strict=True)]
    # Step 2.
    opened = [K * keys.zeta_secret.decrypt(c) % ring for c in blinded]
    first = [(w - K * s_i) % ring for w, s_i in zip(weights[0], s, strict=True)]
    # Step 3: everybody deals shares of its own vector to all K + 1, and adds up what it was dealt.
    held = [first, *(list(w) for w in weights[1:]), opened]
    shares = [[0] * len(psi) for _ in held]
    for vector in held:
        for i, value in enumerate(vector):
            dealt = [rng.bits(_SHARE_BITS) for _ in held[1:]]
            for at, part in enumerate((*dealt, value - sum(dealt))):
                shares[at][i] = (shares[at][i] + part) % ring
    return shares


def aggregate(
    rng: Rng, keys: Keys, sizes: Sequence[int], weights: Sequence[Sequence[int]], noise: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Run Stages 1 to 3 and open the published shares.

    Parameters
    ----------
    rng : Rng
    keys : Keys
    sizes : sequence of int
        n_j, below 2^32.
    weights, noise : sequence of sequences of int
        w_j and eta_j of each party in fixed point.

    Returns
    -------
    tuple of int
        K w^s: the sum of all w_j, plus K times the smallest party's eta_j.
    """
    slot, pi1 = _stage_1(rng, keys, sizes)
    shares = _stage_3(rng, keys, _stage_2(keys, slot, pi1, noise), weights)
    ring = 1 << _SHARE_BITS
    sums = [sum(column) % ring for column in zip(*shares, strict=True)]
    return tuple(v - ring if v >> (_SHARE_BITS - 1) else v for v in sums)


@dataclass(frozen=True)
class SumSeconds:
    """CPU seconds of one sum: of one party, of Charlie, and of the lead, who contributes and decrypts."""

    party: float
    charlie: float
    lead: float


def sum_up(keys: Keys, vectors: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], SumSeconds]:
    """Add vectors up: each coordinate encrypted by itself, added by Charlie, decrypted by the lead."""
    start = time.process_time()
    sent = [[_sent(keys.xi.encrypt(v)) for v in vector] for vector in vectors]
    encrypted = time.process_time()
    totals = [sum(column[1:], column[0]) for column in zip(*sent, strict=True)]
    added = time.process_time()
    opened = tuple(keys.xi_secret.decrypt(c) for c in totals)
    party = (encrypted - start) / len(vectors)
    return opened, SumSeconds(party, added - encrypted, party + time.process_time() - added)
