"""Who sees what of a descent along noisy gradients: what Rajkumar and Agarwal claim, and what is proved.

Every view sees the whole transcript, which is all T opened sums. The iterates are public, so whoever sees the model may
have seen all sums. What is proved is the composition of the T rounds: ``docs/privacy/psgd.md`` derives it.
"""

import math
from functools import partial

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting.l2_rounds import composed_epsilon
from masquerade_core.privacy.samplers.bits import TAIL_BITS
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.privacy.statement import PARTY_UNIT, Claim, Rows, digits, honest_noise
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement
from masquerade_protocols.psgd.schedule import Variant, coarsest_bits, joint_noise, parameters_of

__all__ = ["gradient_statement", "variant_statement"]

_SOURCE = (
    "Rajkumar and Agarwal 2012, Proposition 3.1 for a round; T rounds by the distribution of their privacy losses, "
    "docs/privacy/psgd.md"
)
_PURE_SOURCE = "Rajkumar and Agarwal 2012, Proposition 3.1 for a round; basic composition of T rounds"
_NO_COLLUSION = "nothing: the paper assumes a secure sum"
_ASSUMPTIONS = (
    "everybody follows the protocol",
    "records are encoded by public bounds and clipped to norm 1; nothing else was chosen by looking at them",
    "the error of floats in a sum of gradients is not counted: it is less than n_j^2 2^-52 of one gradient",
    "N, the number of all records, is published as it is; epsilon does not cover sizes",
    "the model is released once; every further run over the same records adds its own epsilon",
)


def variant_statement(name: str, variant: Variant, study: Study) -> tuple[Claim, ...]:
    """Return the statement of a study of ``psgd`` or of one of the two rejected protocols, with either calibration."""
    F = coarsest_bits(study, variant)
    if study.proven:
        return noisy_sums_statement(joint_noise(study, F), K=study.K, min_records=study.study.min_records)
    return gradient_statement(
        name=name,
        K=study.K,
        d=study.d,
        L=float(loss_of(study.model.loss).L),
        eps=study.privacy.epsilon,
        delta=study.privacy.delta,
        rounds=parameters_of(study).rounds,
        colluders=study.privacy.colluders,
        fraction_bits=F,
    )


def gradient_statement(
    *,
    name: str,
    K: int,
    d: int,
    L: float,
    eps: float,
    delta: float,
    rounds: int,
    colluders: int,
    fraction_bits: int,
) -> tuple[Claim, ...]:
    """Return the statement for ``psgd``, ``noisy-gradient`` or ``decaying-budget`` with the paper's noise.

    A replaced record moves the sum of one round by at most 2 L in L2 norm (Proposition 3.1). A party's sum is rounded
    as a whole, which adds at most sqrt(d) units of the grid. Every honest party adds rho_t with density
    exp(-beta_t |x|_2), where beta_t = eps_t/(2 L). So a round is (1 + sqrt(d) 2^-F/(2 L)) eps_t-private in the pure
    sense, and one honest party's rho is enough for that. T rounds cost the sum of these numbers, or less at delta:
    :func:`~masquerade_core.privacy.accounting.l2_rounds.composed_epsilon`.

    eta adds nothing to this bound. It is the same in every round, so the difference of two rounds is free of it. The
    paper's own bound for psgd holds for the point that the descent approaches; but the path of the descent is public.

    Parameters
    ----------
    name : str
        The protocol.
    K, d : int
        Parties; coordinates.
    L : float
        The longest gradient of a record.
    eps, delta : float
        The study's privacy target. The noise of psgd is drawn with eps~ <= eps.
    rounds : int
        T.
    colluders : int
        Parties that may side with Charlie.
    fraction_bits : int
        F of the coarsest grid that there may be.
    """
    decaying = name == "decaying-budget"
    a_round = eps * (1 + math.sqrt(d) * 2.0**-fraction_bits / (2 * L))
    draws = rounds + (name == "psgd")
    total = a_round if decaying else rounds * a_round
    lost, source = _lost(total, draws), _PURE_SOURCE
    if not decaying and (found := _composed(a_round, rounds, d, delta, draws)) < total:
        total, lost, source = found, delta, _SOURCE

    instead = ', or calibration = "proven"' if name == "psgd" else ""
    row = partial(
        Rows(source=source, assumptions=_ASSUMPTIONS).proved,
        provable=f"epsilon = {digits(total)}, delta = {lost:.1e}",
        epsilon=total,
        delta=lost,
        holds_at=f"this noise with epsilon = {eps if decaying else eps / rounds:.4g} in the study{instead}",
    )
    claimed = _claimed(name, eps, delta, rounds)
    t = max(1, colluders)
    eta = (
        " One part of each party's noise is the same in all rounds. It does not help here: the difference of two "
        "rounds is free of it."
        if name == "psgd"
        else ""
    )
    return (
        row(
            "released model and all iterates",
            f"{counted(rounds, 'noisy sum of gradients is', 'noisy sums of gradients are')} public. The noise is new "
            "in every round, so it averages out. It is proved that all rounds together cost no more than epsilon = "
            f"{digits(total)}.{eta}",
            claimed=claimed,
        ),
        row(
            "Charlie",
            "Charlie sees ciphertexts, and the sums that everybody sees. If he breaks the rules, he can shift a sum, "
            "and with it the point of the next gradients. The bound holds at any points.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
            claimed=claimed,
        ),
        row(
            "one party",
            "A party knows its own records and its own noise; the others' noise stays. The lead opens sums, never "
            "one party's contribution.",
            "the party colludes with nobody",
            claimed=claimed,
        ),
        row(
            "Charlie with the lead",
            "They hold the key and every ciphertext. Each contribution is masked with numbers that they do not know. "
            "So they see only the sum of the others' contributions, with the others' noise.",
            "another party is honest",
            claimed=_NO_COLLUSION,
        ),
        row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            f"They take their own noise off; {honest_noise(K - t)} stays. One party's is enough for this bound.",
            "at least one party is honest",
            claimed=_NO_COLLUSION,
        ),
        PARTY_UNIT,
    )


def _claimed(name: str, eps: float, delta: float, rounds: int) -> str:
    """Return what the paper claims of a whole run."""
    if name == "psgd":
        return f"probabilistic, epsilon = {eps:g}, delta = {delta:g} (Theorem 4.2)"
    if name == "noisy-gradient":
        return (
            f"epsilon = {eps:g} for one round, {rounds * eps:g} for {counted(rounds, 'round')} (section 3.2, attempt 1)"
        )
    return f"pure, epsilon = {eps:g} (section 3.2)"


def _composed(a_round: float, rounds: int, d: int, delta: float, draws: int) -> float:
    """Return epsilon of all rounds at ``delta``, after the samplers' distance from their distributions took its part.

    That part grows with the epsilon that is found. So the search is repeated until the part is large enough.
    """
    found, taken = 0.0, 0.0
    while taken < delta:
        found = composed_epsilon(a_round, rounds, d, delta - taken)
        if _lost(found, draws) <= taken:
            return found
        taken = 2 * _lost(found, draws)
    return math.inf


def _lost(eps: float, draws: int) -> float:
    """Return the delta of all draws: each one's cut-off and its distance from its distribution, on both neighbours."""
    each = (2.0**-TAIL_BITS + 2.0**-L2_TV_BITS) * (1 + math.exp(min(eps, 700.0)))
    return min(1.0, draws * each)
