"""Local aggregation: what the smallest party sends is selected under encryption; the sum is published in shares.

Pathak, Rane and Raj, "Multiparty Differential Privacy via Aggregation of Locally Trained Classifiers", NIPS 2010.

K parties train a classifier each. The released classifier is the average of theirs, plus the noise of the party with
the fewest records (the *smallest party*). Nobody learns who that is, or how many records it has. Two Paillier keys are
in use, xi and zeta. One party, the *lead* P_L, holds xi's secret half. Charlie, the untrusted curator, holds zeta's.
Steps are numbered as in the paper's section 3.2. ``docs/protocols/local-aggregation.md`` lists the paper's gaps, and
how we close them. For K parties, d coordinates in m plaintexts, and keys of n bits::

    party P_j                      Charlie                          lead P_L
      | train w_j, draw K eta_j      |                                |
      |============ join: everybody's box key of this run, signed ===============|
      |<-------- CharlieKeys --------|--------- CharlieKeys --------->|   9n/8 + 32
      |                              |<-------- LeadKey --------------|   9n/8
      |<~~~~~~~~~~~~~~ coin toss: seed of pi1 and of the ties ~~~~~~~>|   3 boxes to each other party
    1 |~~~~~~~~~~~~~~ SizeShare: a_j, sealed b_j ~~~~~~~~~~~~~~~~~~~~>|   58 + 40
      |                              |<-------- PermutedShares -------|   K (2n/8 + 53)
      |                              |--------- BlindedShares ------->|   K 2n/8
      |                              |--------- MatchBits ----------->|   2,048 a match  } ceil(log2 K)
      |                              |<-------- MatchItems -----------|   2,113 a match  } times
    2 |<-------- Indicator ----------|--------- Indicator ----------->|   K 2n/8
      |~~~~~~~~~~~~~~ NoiseTerm: E_j = v_j (K eta_j) + S_j ~~~~~~~~~~>|   m 2n/8 + 40
    3 |                              |<-------- NoiseTotal -----------|   m 2n/8
      |--------- Share ------------->|<-------- Share ----------------|   m n/8
      |<-------- Published ----------|--------- Published ----------->|   (K+1) m n/8

``~`` is a sealed box that Charlie relays. The sizes are those of the fields, in bytes.

That is ``calibration = "paper"``. With ``"proven"`` every party adds a share of noise that nobody else knows. Stage 2
then selects how large that noise must be for the smallest party, and each party checks that it is enough for its own
records (:mod:`masquerade_protocols.local_aggregation.size_class`). Where the study makes the scale public, stages 1
and 2 fall away (:mod:`masquerade_protocols.local_aggregation.public_scale`).
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from masquerade_core.crypto.comparison import POINT_BYTES, DeciderKey, check_point
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import Ciphertext, Fresh, FullPool, PublicKey, SecretKey, draw_primes
from masquerade_core.crypto.pair_keys import ANONYMOUS_OVERHEAD
from masquerade_core.crypto.shares import invert, permutation, random_permutation, share
from masquerade_core.data.records import Records
from masquerade_core.errors import ProtocolViolation
from masquerade_core.model import Model
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import Broadcast, Message, SealedMessage
from masquerade_protocols.blocks.coin_toss import coin_toss
from masquerade_protocols.local_aggregation import joint_noise, public_scale, size_class
from masquerade_protocols.local_aggregation.additive_shares import Published, Share, give_share, publish_shares
from masquerade_protocols.local_aggregation.before_join import Prepared, prepare
from masquerade_protocols.local_aggregation.public import joint_noise_of, packing, selects
from masquerade_protocols.local_aggregation.tournament import (
    MODULUS,
    answer_matches,
    find_smallest,
    rounds,
)

__all__ = ["Published", "Share", "charlie", "party"]

_SHARE_BYTES = 5
_SEALED_BYTES = _SHARE_BYTES + ANONYMOUS_OVERHEAD


# --- Messages ------------------------------------------------------------------


class LeadKey(Message):
    """The lead to Charlie: the parties' public Paillier key xi, and the proof of its form."""

    modulus: bytes
    roots: bytes


class CharlieKeys(Broadcast):
    """Charlie to all: his public Paillier key zeta, the proof of its form, and his ElGamal key for the comparisons."""

    modulus: bytes
    roots: bytes
    decider: Annotated[bytes, Field(min_length=POINT_BYTES, max_length=POINT_BYTES)]


class SizeShare(SealedMessage):
    """Step 1.2, P_j to the lead: a_j, and b_j for Charlie in an anonymous box inside this one."""

    a: Annotated[bytes, Field(min_length=_SHARE_BYTES, max_length=_SHARE_BYTES)]
    sealed_b: Annotated[bytes, Field(min_length=_SEALED_BYTES, max_length=_SEALED_BYTES)]


class PermutedShares(Message):
    """Step 1.3, the lead to Charlie: xi(pi1(a)), and the boxes with pi1(b)."""

    a: Ciphertexts
    sealed_b: bytes


class BlindedShares(Message):
    """Step 1.4, Charlie to the lead: xi(pi2(pi1(a) + r))."""

    a: Ciphertexts


class Indicator(Broadcast):
    """Step 2.1, Charlie to all: zeta(pi2^-1(u))."""

    u: Ciphertexts


class NoiseTerm(SealedMessage):
    """Steps 2.3 and 3.1, P_j to the lead: zeta(v_j K eta_j + S_j), packed."""

    terms: Ciphertexts


class NoiseTotal(Message):
    """Step 3.1, the lead to Charlie: zeta(K eta + sum_j S_j), packed."""

    total: Ciphertexts


# --- Replay log -----------------------------------------------------------------------


def _size_with_tie(n: int, rank: int, study: Study) -> int:
    """Step 1.1: N_j = n_j 2^m + rho(j). All N_j differ, so no comparison shows that two parties are equally large."""
    return (n << rounds(study.K)) + rank


def _blinded_share(a_i: Ciphertext, r_i: int, pool: FullPool, lead: str) -> Fresh:
    """Step 1.4: xi(a_i + r_i), rerandomized in full. Else the ciphertext would keep a_i's randomness, and show pi2."""
    return pool.rerandomize(a_i + r_i, lead)


def _select(v_j: Ciphertext, exponents: Sequence[int]) -> tuple[int, ...]:
    """Step 2.3: zeta(v_j)^e for each packed exponent e, one exponentiation each.

    Noise within its bound has exponents below N. Other noise, which has a chance of 2^-60, is reduced and stops nobody.
    """
    return tuple(c.to_int() for c in v_j.powers([e % v_j.key.n for e in exponents]))


# --- The parties ---------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Records) -> Model:
    """Party P_j, the lead included.

    Parameters
    ----------
    seat : Seat
    study : Study
    data : Records
        This party's records, at least the study's ``min_records``.

    Returns
    -------
    Model
        The released classifier with all published shares.

    Raises
    ------
    ProtocolViolation
        Another participant's fault. It is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares.
    """
    if not selects(study):
        return await public_scale.party(seat, study, data)
    layout = packing(study)
    own = await prepare(seat, study, data)  # section 3.1
    xi = None
    if seat.me == study.lead:
        xi = SecretKey(*await seat.once("key xi", lambda rng: draw_primes(rng, study.key_bits)))

    await seat.join()
    await seat.stage("keys")
    keys = await seat.receive(CharlieKeys, CHARLIE)
    if xi is not None:  # not before: Charlie's next broadcast then tells that this was sent (standing.py)
        await seat.send(CHARLIE, LeadKey(modulus=xi.public.to_bytes(), roots=xi.proof_of_form()))
    zeta = PublicKey.proved(keys.modulus, keys.roots, study.key_bits, CHARLIE)
    check_point(keys.decider, CHARLIE)

    # Step 1.2, "mutually agree on a permutation": by a coin toss. A second permutation breaks ties.
    seed = await coin_toss(seat)
    pi1 = permutation(seed, "pi1", study.K)
    rho = permutation(seed, "tie", study.K)
    j = study.names.index(seat.me)

    # Steps 1.1 to 1.5.
    await seat.stage("stage 1: smallest data set")
    size = _size_with_tie(data.n, rho[j], study)
    a_j, b_j = await seat.once("size shares", lambda rng: share(rng, size, MODULUS))
    sealed_b = await seat.once("sealed share", lambda rng: seat.seal(rng, CHARLIE, b_j.to_bytes(_SHARE_BYTES, "big")))
    mine = SizeShare(a=a_j.to_bytes(_SHARE_BYTES, "big"), sealed_b=sealed_b)
    if xi is None:
        await seat.send_sealed(mine, study.lead)
    else:
        await _lead_stage_1(seat, study, xi, keys.decider, pi1, mine)

    if study.proven:
        return await _at_the_smallest_class(seat, study, zeta, pi1[j], own, seed)
    S_j = await _stage_2(seat, study, layout, zeta, pi1[j], own)

    # Steps 3.2 and 3.3: W_j - S_j, and a share of zero, so that even Charlie with the lead learns no W_j.
    shares = await give_share(seat, study, layout, zeta.n, own.vector, S_j, seed)
    return Model(shares.open(), shares)


async def _lead_stage_1(
    seat: Seat, study: Study, xi: SecretKey, decider: bytes, pi1: Sequence[int], mine: SizeShare
) -> None:
    """Carry out the lead's part of stage 1. It has the shares that the paper's parties pass to each other."""
    K, key = study.K, xi.public

    # Steps 1.2 and 1.3: permute by pi1, encrypt, pass on. The boxes with b_j bear no name.
    received = {**await seat.gather(SizeShare), seat.me: mine}
    in_slots = [received[study.names[j]] for j in invert(pi1)]
    pool = FullPool(key, await seat.once("obfuscators xi", lambda rng: xi.obfuscators(rng, K)))
    fresh = [pool.encrypt(int.from_bytes(s.a, "big"), CHARLIE) for s in in_slots]
    sealed = b"".join(s.sealed_b for s in in_slots)
    await seat.send(CHARLIE, PermutedShares(a=Ciphertexts.outgoing(fresh), sealed_b=sealed))

    # Step 1.5: a~ = pi2(pi1(a) + r) mod 2^33, uniform.
    blinded = await seat.receive(BlindedShares, CHARLIE)
    values = blinded.a.read(key, K, CHARLIE)
    a = await seat.once("blinded shares", lambda _: tuple(xi.decrypt(c) % MODULUS for c in values))

    # Step 1.6.
    await answer_matches(seat, a, decider)


async def _stage_2(
    seat: Seat, study: Study, layout: Packing, zeta: PublicKey, slot: int, own: Prepared
) -> tuple[int, ...]:
    """Select the smallest party's noise under encryption, and blind it: steps 2.2 to 3.1. Return the blinds S_j."""
    # Obfuscators depend on no message that is still to come, so they are drawn while others are busy with stage 1.
    entries = await seat.once("obfuscators", lambda rng: zeta.full_obfuscators(rng, layout.count))
    pool = FullPool(zeta, entries)

    v_j = await _indicator(seat, study, zeta, slot)

    # Steps 2.3 and 3.1. Every party blinds, with S_j uniform in Z_N; in the paper P_1 alone does.
    S_j = await seat.once("blinds S", lambda rng: tuple(rng.below(zeta.n) for _ in range(layout.count)))
    powers = await seat.once("selected noise", lambda _: _select(v_j, layout.pack_exponents(own.noise)))
    terms = [Ciphertext(zeta, power) + s for power, s in zip(powers, S_j, strict=True)]
    if seat.me != study.lead:
        fresh = [pool.rerandomize(term, study.lead) for term in terms]
        await seat.send_sealed(NoiseTerm(terms=Ciphertexts.outgoing(fresh)), study.lead)
        return S_j

    # Step 2.4. All K terms, or nothing: if one were missing, the noise could be missing, and nobody would notice.
    for name, message in (await seat.gather(NoiseTerm)).items():
        received = message.terms.read(zeta, layout.count, name)
        terms = [total + term for total, term in zip(terms, received, strict=True)]
    fresh = [pool.rerandomize(total, CHARLIE) for total in terms]
    await seat.send(CHARLIE, NoiseTotal(total=Ciphertexts.outgoing(fresh)))
    return S_j


async def _indicator(seat: Seat, study: Study, zeta: PublicKey, slot: int) -> Ciphertext:
    """Receive Charlie's indicator, and return v_j. Step 2.2: undo pi1, that is, take slot pi1(j)."""
    indicator = await seat.receive(Indicator, CHARLIE)
    await seat.stage("stage 2: noise")
    return indicator.u.read(zeta, study.K, CHARLIE)[slot]


async def _at_the_smallest_class(
    seat: Seat, study: Study, zeta: PublicKey, slot: int, own: Prepared, seed: bytes
) -> Model:
    """Calibration "proven": select the smallest party's size class, and add noise for it to the classifier."""
    pool = await size_class.draw_ahead(seat, zeta)
    v_j = await _indicator(seat, study, zeta, slot)
    k = await size_class.select_class(seat, study, pool, v_j, own.size_class)
    noise = joint_noise_of(study).of_class(k)
    x_j = await seat.once(f"noise of class {k}", lambda rng: joint_noise.draw(rng, noise))
    vector = tuple(w + x for w, x in zip(own.vector, x_j, strict=True))
    return await public_scale.share_noisy(seat, study, vector, seed + bytes([k]))


# --- Charlie -------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie, the curator: he relays, blinds, compares, decrypts blinded numbers, and publishes.

    Returns
    -------
    Model
        The released classifier with all published shares.

    Raises
    ------
    ProtocolViolation
        A party's fault. It is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares.
    """
    if not selects(study):
        return await public_scale.charlie(seat, study)
    K, lead, layout = study.K, study.lead, packing(study)
    zeta = SecretKey(*await seat.once("key zeta", lambda rng: draw_primes(rng, study.key_bits)))
    decider = DeciderKey(await seat.once("decider key", DeciderKey.draw))

    await seat.join()
    await seat.stage("keys")
    roots = zeta.proof_of_form()
    await seat.broadcast(CharlieKeys(modulus=zeta.public.to_bytes(), roots=roots, decider=decider.public))
    told = await seat.receive(LeadKey, lead)
    xi = PublicKey.proved(told.modulus, told.roots, study.key_bits, lead)

    # All this is drawn while the parties toss their coins.
    pool = FullPool(xi, await seat.once("obfuscators xi", lambda rng: xi.full_obfuscators(rng, K)))
    indicator_pool = FullPool(zeta.public, await seat.once("obfuscators zeta", lambda rng: zeta.obfuscators(rng, K)))
    r = await seat.once("blinds r", lambda rng: tuple(rng.below(xi.n) for _ in range(K)))
    pi2 = await seat.once("pi2", lambda rng: random_permutation(rng, K))

    # Step 1.4: a~ = pi2(pi1(a) + r), b~ = pi2(pi1(b) - r), r uniform in Z_N.
    permuted = await seat.receive(PermutedShares, lead)
    await seat.stage("stage 1: smallest data set")
    a = permuted.a.read(xi, K, lead)
    if len(permuted.sealed_b) != K * _SEALED_BYTES:
        msg = f"{lead} sent {len(permuted.sealed_b)} bytes of sealed shares, where {K * _SEALED_BYTES} are due"
        raise ProtocolViolation(msg, peer=lead)
    boxes = [permuted.sealed_b[i * _SEALED_BYTES : (i + 1) * _SEALED_BYTES] for i in range(K)]
    b = [int.from_bytes(seat.unseal(box, length=_SHARE_BYTES), "big") for box in boxes]
    fresh = [_blinded_share(a[pi2[t]], r[pi2[t]], pool, lead) for t in range(K)]
    await seat.send(lead, BlindedShares(a=Ciphertexts.outgoing(fresh)))
    b_tilde = [(b[pi2[t]] - r[pi2[t]]) % MODULUS for t in range(K)]

    # Step 1.6.
    winner = pi2[await find_smallest(seat, lead, b_tilde, decider)]

    # Step 2.1: u is 1 at the winner's slot. It is sent in pi1's order, that is after pi2^-1.
    await seat.stage("stage 2: noise")
    u = [indicator_pool.encrypt(int(slot == winner), "*") for slot in range(K)]
    await seat.broadcast(Indicator(u=Ciphertexts.outgoing(u)))

    if study.proven:
        await size_class.announce_class(seat, study, zeta)
        return await public_scale.open_shares(seat, study)

    # Step 3.2: decrypt K eta + sum_j S_j, and subtract the exponents' offset.
    total = (await seat.receive(NoiseTotal, lead)).total.read(zeta.public, layout.count, lead)
    await seat.stage("stage 3: shares")
    opened = await seat.once("blinded noise", lambda _: tuple(zeta.decrypt(c) for c in total))
    own = tuple(o - e for o, e in zip(opened, layout.exponent_offsets(), strict=True))

    # Step 3.3: publish all K + 1 shares.
    shares = await publish_shares(seat, study, layout, zeta.public.n, own)
    return Model(shares.open(), shares)
