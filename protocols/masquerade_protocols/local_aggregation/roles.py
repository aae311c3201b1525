"""Local aggregation, whole: blind-and-permute minimum, oblivious noise selection, additive shares.

Pathak, Rane and Raj, "Multiparty Differential Privacy via Aggregation of Locally Trained Classifiers", NIPS 2010.

K parties train a classifier each; what is released is the classifiers' average plus the noise of the smallest party,
whose identity and size nobody learns. Steps are numbered as in the paper's section 3.2;
``docs/protocols/local-aggregation.md`` lists the paper's gaps and what is done about each. For K parties, d
coordinates in m plaintexts, and keys of n bits::

    party P_j                      Charlie                          lead P_L (one of the parties, holds xi)
      | train w_j, draw K eta_j      |                                |
      |============ join: everybody's box key of this run, signed ===============|
      |                              |<-------- LeadKey --------------|   n/8
      |<-------- CharlieKeys --------|--------- CharlieKeys --------->|   n/8 + 32
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

``~`` is a sealed box that Charlie relays. Sizes are those of the fields in bytes.

That is ``calibration = "paper"``. With ``"proven"`` every party adds a share of noise that nobody knows, at the scale
of the smallest party or at a public one: :mod:`masquerade_protocols.local_aggregation.joint_noise` has what differs.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.crypto.boxes import ANONYMOUS_OVERHEAD
from masquerade_core.crypto.comparison import (
    POINT_BYTES,
    DeciderKey,
    check_point,
)
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import Ciphertext, Fresh, FullPool, PublicKey, SecretKey, draw_primes
from masquerade_core.crypto.shares import invert, permutation, random_permutation, share
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, LocalProtocolError, ProtocolViolation
from masquerade_core.learning.erm import fit
from masquerade_core.learning.losses import require_convex
from masquerade_core.model import Model
from masquerade_core.privacy.noise.joint_gaussian import JointNoise
from masquerade_core.privacy.noise.output_perturbation import paper_beta, paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace, tail_bound
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace, l2_tail_bound
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.messages import Ciphertexts, Message, SealedMessage
from masquerade_protocols.blocks.coin_toss import coin_toss
from masquerade_protocols.local_aggregation import joint_noise
from masquerade_protocols.local_aggregation.additive_shares import Published, Share, give_share, publish_shares
from masquerade_protocols.local_aggregation.tournament import (
    MODULUS,
    NUMBER_BITS,
    answer_matches,
    find_smallest,
    rounds,
)

__all__ = [
    "FRACTION_BITS",
    "Parameters",
    "Published",
    "Share",
    "charlie",
    "check",
    "joint_noise_of",
    "packing",
    "party",
]

FRACTION_BITS = 32  # F: weights and noise are integers in units of 2^-F
_SHARE_BYTES = 5
_SEALED_BYTES = _SHARE_BYTES + ANONYMOUS_OVERHEAD


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    ``noise``, of calibration "paper", is "laplace" (the paper's: independent Laplace noise per coordinate) or "l2"
    (density exp(-beta |eta|_2), as in Rajkumar and Agarwal 2012, footnote 2). Of calibration "proven": ``scale`` says
    whether the noise is sized for the smallest party, whose size stays hidden ("selected"), or for the public
    ``min_records`` ("floor"); with ``weights = "sizes"`` a classifier counts n_j times, and no size is in the scale.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    noise: Literal["laplace", "l2"] = "laplace"
    scale: Literal["selected", "floor"] = "selected"
    weights: Literal["uniform", "sizes"] = "uniform"


# --- Messages ------------------------------------------------------------------


class LeadKey(Message):
    """Lead to Charlie: the parties' Paillier key xi."""

    modulus: bytes


class CharlieKeys(Message):
    """Charlie to all: his Paillier key zeta, and his ElGamal key for the comparisons."""

    modulus: bytes
    decider: Annotated[bytes, Field(min_length=POINT_BYTES, max_length=POINT_BYTES)]


class SizeShare(SealedMessage):
    """Step 1.2, P_j to the lead: a_j; and b_j for Charlie, in an anonymous box inside this one."""

    a: Annotated[bytes, Field(min_length=_SHARE_BYTES, max_length=_SHARE_BYTES)]
    sealed_b: Annotated[bytes, Field(min_length=_SEALED_BYTES, max_length=_SEALED_BYTES)]


class PermutedShares(Message):
    """Step 1.3, lead to Charlie: xi(pi1(a)), and the boxes with pi1(b)."""

    a: Ciphertexts
    sealed_b: bytes


class BlindedShares(Message):
    """Step 1.4, Charlie to the lead: xi(pi2(pi1(a) + r))."""

    a: Ciphertexts


class Indicator(Message):
    """Step 2.1, Charlie to all: zeta(pi2^-1(u))."""

    u: Ciphertexts


class NoiseTerm(SealedMessage):
    """Steps 2.3 and 3.1, P_j to the lead: zeta(v_j K eta_j + S_j), packed."""

    terms: Ciphertexts


class NoiseTotal(Message):
    """Step 3.1, lead to Charlie: zeta(K eta + sum_j S_j), packed."""

    total: Ciphertexts


# --- What follows from the study alone -----------------------------------------


def _chosen(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def joint_noise_of(study: Study) -> JointNoise:
    """Return the noise that all parties draw shares of, of calibration "proven"."""
    chosen = _chosen(study)
    return joint_noise.noise_of(study, "sizes" if chosen.weights == "sizes" else chosen.scale)


def check(study: Study) -> None:
    """Refuse what can be known to fail before anybody joins.

    Raises
    ------
    BadInput
        Weights or a scale that the paper has not, the paper's noise beside a proven calibration, or a study for which
        there is no :func:`packing`.
    """
    chosen = _chosen(study)
    if not study.proven and (chosen.scale, chosen.weights) != ("selected", "uniform"):
        raise BadInput(
            f'[protocol] has scale = "{chosen.scale}" and weights = "{chosen.weights}", but the paper\'s noise has '
            'only scale = "selected" and weights = "uniform"',
            'set calibration = "proven", or leave both out',
        )
    if study.proven and "noise" in study.protocol:
        raise BadInput(
            f'[protocol] noise is "{chosen.noise}", but with calibration = "proven" all noise is Gaussian',
            'leave noise out, or set calibration = "paper"',
        )
    packing(study)


def packing(study: Study) -> Packing:
    """Lay out K w^s: slots as wide as public bounds require, never as any party's data or noise does.

    |w_j|_2 <= sqrt(2 ln 2 / Lambda), for w_j costs no more than w = 0; the noise is bounded at the public
    ``min_records`` but for a chance of 2^-60, which the statement counts in delta.

    Raises
    ------
    BadInput
        The noise fits no plaintext, or there is none for the wish; the loss is another than that of these bounds and
        of the statement's; or there is no regularization.
    """
    if study.model.loss != "logistic":
        msg = f"[model] loss is {study.model.loss!r}, but local-aggregation's bounds are those of the logistic loss"
        raise BadInput(msg, 'set loss = "logistic"')
    require_convex(study.model)
    if study.proven:
        return joint_noise.packing(study, joint_noise_of(study))
    weights = study.K * joint_noise.grid_norm(study.model.regularization, FRACTION_BITS)
    scale = Fraction(study.K << FRACTION_BITS)
    floor, eps, lam = study.study.min_records, study.privacy.epsilon, study.model.regularization
    if _chosen(study).noise == "laplace":
        noise = tail_bound(scale * paper_scale(floor, eps, lam), count=study.d)
    else:
        noise = l2_tail_bound(paper_beta(floor, eps, lam), study.d, scale)
    layout = Packing(study.d, weights + noise, study.crypto.key_bits)
    if not layout.fits:
        msg = f"the noise that this study asks for is too large for a key of {study.crypto.key_bits} bits"
        raise BadInput(msg, "choose a larger epsilon, regularization or min_records")
    return layout


def _draw_noise(rng: Rng, study: Study, n: int) -> tuple[int, ...]:
    """Step 2.3: draw K eta_j as one integer vector, in units of 2^-F.

    The factor K belongs to the scale. Multiplying a drawn integer by K would put the released sum on a lattice, where
    the classifiers' sum modulo K stands for everybody to read.
    """
    scale = Fraction(study.K << FRACTION_BITS)
    eps, lam = study.privacy.epsilon, study.model.regularization
    if _chosen(study).noise == "laplace":
        return tuple(discrete_laplace(rng, scale * paper_scale(n, eps, lam), study.d))
    return tuple(l2_laplace(rng, paper_beta(n, eps, lam), study.d, scale))


def _encode_weights(w: Sequence[float]) -> tuple[int, ...]:
    """Round to the grid of 2^-F."""
    return tuple(round(v * 2**FRACTION_BITS) for v in w)


def _size_with_tie(n: int, rank: int, study: Study) -> int:
    """N_j = n_j 2^m + rho(j): all distinct, so no comparison can show that two parties are equally large."""
    value = (n << rounds(study.K)) + rank
    if value >> NUMBER_BITS:
        msg = f"a party has more records than the {NUMBER_BITS - rounds(study.K)} bits of a size can hold"
        raise LocalProtocolError(msg)
    return value


def _blind_term(v_j: Ciphertext, exponents: Sequence[int]) -> tuple[int, ...]:
    """Step 2.3: zeta(v_j)^e for each packed exponent; one exponentiation each."""
    return tuple(c.to_int() for c in v_j.powers(exponents))


def _blinded_share(a_i: Ciphertext, r_i: int, pool: FullPool, lead: str) -> Fresh:
    """Step 1.4: xi(a_i + r_i), multiplied by a full r^N: else its randomness would still be a_i's, and show pi2."""
    return pool.rerandomize(a_i + r_i, lead)


# --- The parties ---------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset) -> Model:
    """Party P_j, the lead included.

    Parameters
    ----------
    seat : Seat
    study : Study
    data : Dataset
        This party's records; at least the study's ``min_records``.

    Returns
    -------
    Model
        The released classifier with all published shares.

    Raises
    ------
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares.
    """
    joint = joint_noise_of(study) if study.proven else None
    if joint is not None and joint.law != "selected":
        return await joint_noise.party(seat, study, data, joint)
    layout, n_j = packing(study), len(data.y)

    # Section 3.1. Before the join: afterwards, the time that training takes would tell n_j.
    await seat.stage("training")
    w_j = await seat.once("classifier", lambda _: tuple(fit(data.X, data.y, study.model.regularization).tolist()))
    scale = 0
    if joint is None:
        noise = await seat.once("noise", lambda rng: _draw_noise(rng, study, n_j))
        W_j = _encode_weights(w_j)
    else:
        scale = joint_noise.own_scale(joint, n_j)
        noise, fine = await seat.once("noise", lambda rng: tuple(joint_noise.draw(rng, joint)))
        W_j = tuple(w + f for w, f in zip(joint_noise.encode(w_j), fine, strict=True))
    xi = None
    if seat.me == study.lead:
        xi = SecretKey(*await seat.once("key xi", lambda rng: draw_primes(rng, study.crypto.key_bits)))

    await seat.join()
    await seat.stage("keys")
    if xi is not None:
        await seat.send(CHARLIE, LeadKey(modulus=xi.public.to_bytes()))
    keys = await seat.receive(CharlieKeys, CHARLIE)
    zeta = PublicKey.received(keys.modulus, study.crypto.key_bits, CHARLIE)
    check_point(keys.decider, CHARLIE)

    # Step 1.2, "mutually agree on a permutation": by a coin toss; a second permutation breaks ties.
    seed = await coin_toss(seat)
    pi1 = permutation(seed, "pi1", study.K)
    rho = permutation(seed, "tie", study.K)
    j = study.names.index(seat.me)

    # Steps 1.1 to 1.5.
    await seat.stage("stage 1: smallest data set")
    size = _size_with_tie(n_j, rho[j], study)
    a_j, b_j = await seat.once("size shares", lambda rng: share(rng, size, MODULUS))
    sealed_b = await seat.once("sealed share", lambda rng: seat.seal(rng, CHARLIE, b_j.to_bytes(_SHARE_BYTES, "big")))
    own = SizeShare(a=a_j.to_bytes(_SHARE_BYTES, "big"), sealed_b=sealed_b)
    if xi is None:
        await seat.send_sealed(own, study.lead)
    else:
        await _lead_stage_1(seat, study, xi, keys.decider, pi1, own)

    S_j = await _stage_2(seat, study, layout, zeta, pi1[j], noise, scale)

    # Steps 3.2 and 3.3: W_j - S_j, and a share of zero, so that Charlie with the lead learns no W_j either.
    fraction_bits = FRACTION_BITS if joint is None else joint_noise.FRACTION_BITS
    shares = await give_share(seat, study, layout, zeta.n, W_j, S_j, seed, fraction_bits)
    return Model(shares.open(), shares)


async def _lead_stage_1(
    seat: Seat, study: Study, xi: SecretKey, decider: bytes, pi1: Sequence[int], own: SizeShare
) -> None:
    """The lead's part of Stage 1: it stands in for the parties that the paper's step 1.2 and 1.4 pass shares among."""
    K, key = study.K, xi.public

    # Steps 1.2 and 1.3: permute by pi1, encrypt, pass on. Charlie sees b_j in a box without a name.
    received = {**await seat.gather(SizeShare), seat.me: own}
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
    seat: Seat, study: Study, layout: Packing, zeta: PublicKey, slot: int, noise: Sequence[int], scale: int
) -> tuple[int, ...]:
    """Steps 2.2 to 3.1: select the smallest party's noise under encryption, and blind it; returns the blinds S_j.

    ``noise`` is K eta_j; or, of calibration "proven", unit noise, and ``scale`` what b is for this party's records:
    then the smallest party's scale is selected, and multiplies everybody's noise.
    """
    # Obfuscators do not depend on anything that is still to come: drawn while the others are busy with Stage 1.
    entries = await seat.once("obfuscators", lambda rng: zeta.full_obfuscators(rng, layout.count))
    pool = FullPool(zeta, entries)

    # Step 2.2: undo pi1. Slot pi1(j) is this party's.
    indicator = await seat.receive(Indicator, CHARLIE)
    await seat.stage("stage 2: noise")
    v_j = indicator.u.read(zeta, study.K, CHARLIE)[slot]

    factor = await joint_noise.select_scale(seat, study, joint_noise_of(study), v_j, scale) if study.proven else v_j

    # Steps 2.3 and 3.1: everybody blinds, not P_1 alone, by S_j uniform in Z_N.
    S_j = await seat.once("blinds S", lambda rng: tuple(rng.below(zeta.n) for _ in range(layout.count)))
    powers = await seat.once("selected noise", lambda _: _blind_term(factor, layout.pack_exponents(noise)))
    terms = [Ciphertext(zeta, power) + s for power, s in zip(powers, S_j, strict=True)]
    if seat.me != study.lead:
        fresh = [pool.rerandomize(term, study.lead) for term in terms]
        await seat.send_sealed(NoiseTerm(terms=Ciphertexts.outgoing(fresh)), study.lead)
        return S_j

    # Step 2.4. All K terms, or nothing: a missing one would take the noise away in silence.
    for name, message in (await seat.gather(NoiseTerm)).items():
        received = message.terms.read(zeta, layout.count, name)
        terms = [total + term for total, term in zip(terms, received, strict=True)]
    if study.proven:
        terms = joint_noise.without_offsets(terms, factor, layout, study.K)
    fresh = [pool.rerandomize(total, CHARLIE) for total in terms]
    await seat.send(CHARLIE, NoiseTotal(total=Ciphertexts.outgoing(fresh)))
    return S_j


# --- Charlie -------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie, the curator: relays, blinds, compares, decrypts what is blinded, publishes.

    Returns
    -------
    Model
        The released classifier with all published shares.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        The opened sum is not the sum of everybody's shares.
    """
    if study.proven and (joint := joint_noise_of(study)).law != "selected":
        return await joint_noise.charlie(seat, study, joint)
    K, lead, layout = study.K, study.lead, packing(study)
    zeta = SecretKey(*await seat.once("key zeta", lambda rng: draw_primes(rng, study.crypto.key_bits)))
    decider = DeciderKey(await seat.once("decider key", DeciderKey.draw))

    await seat.join()
    await seat.stage("keys")
    await seat.broadcast(CharlieKeys(modulus=zeta.public.to_bytes(), decider=decider.public))
    xi = PublicKey.received((await seat.receive(LeadKey, lead)).modulus, study.crypto.key_bits, lead)

    # Drawn while the parties toss their coins.
    pool = FullPool(xi, await seat.once("obfuscators xi", lambda rng: xi.full_obfuscators(rng, K)))
    indicator_pool = FullPool(zeta.public, await seat.once("obfuscators zeta", lambda rng: zeta.obfuscators(rng, K)))
    r = await seat.once("blinds r", lambda rng: tuple(rng.below(xi.n) for _ in range(K)))
    pi2 = await seat.once("pi2", lambda rng: random_permutation(rng, K))

    # Step 1.4: a~ = pi2(pi1(a) + r), b~ = pi2(pi1(b) - r), r uniform in Z_N.
    permuted = await seat.receive(PermutedShares, lead)
    await seat.stage("stage 1: smallest data set")
    a = permuted.a.read(xi, K, lead)
    if len(permuted.sealed_b) != K * _SEALED_BYTES:
        msg = f"{lead} sent {len(permuted.sealed_b)} bytes of sealed shares where {K * _SEALED_BYTES} belong"
        raise ProtocolViolation(msg, peer=lead)
    boxes = [permuted.sealed_b[i * _SEALED_BYTES : (i + 1) * _SEALED_BYTES] for i in range(K)]
    b = [int.from_bytes(seat.unseal(box, length=_SHARE_BYTES), "big") for box in boxes]
    fresh = [_blinded_share(a[pi2[t]], r[pi2[t]], pool, lead) for t in range(K)]
    await seat.send(lead, BlindedShares(a=Ciphertexts.outgoing(fresh)))
    b_tilde = [(b[pi2[t]] - r[pi2[t]]) % MODULUS for t in range(K)]

    # Step 1.6.
    winner = pi2[await find_smallest(seat, lead, b_tilde, decider)]

    # Step 2.1: u is 1 at the winner's slot; sent in pi1's order, that is after pi2^-1.
    await seat.stage("stage 2: noise")
    u = [indicator_pool.encrypt(int(slot == winner), "*") for slot in range(K)]
    await seat.broadcast(Indicator(u=Ciphertexts.outgoing(u)))

    # Step 3.2: decrypt K eta + sum_j S_j; take the exponents' public offset off, where the lead has not done so.
    total = (await seat.receive(NoiseTotal, lead)).total.read(zeta.public, layout.count, lead)
    await seat.stage("stage 3: shares")
    opened = await seat.once("blinded noise", lambda _: tuple(zeta.decrypt(c) for c in total))
    offsets = (0,) * layout.count if study.proven else layout.exponent_offsets()
    own = tuple(o - e for o, e in zip(opened, offsets, strict=True))

    # Step 3.3: publish all K + 1 shares.
    fraction_bits = joint_noise.FRACTION_BITS if study.proven else FRACTION_BITS
    shares = await publish_shares(seat, study, layout, zeta.public.n, own, fraction_bits)
    return Model(shares.open(), shares)
