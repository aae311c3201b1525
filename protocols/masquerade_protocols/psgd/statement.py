"""The privacy statement of the gradient protocols: what Rajkumar and Agarwal claim, and what is provable of a run.

Every view is the view of the transcript: the iterates are public, so whoever sees the run's outcome at all may have
seen all T opened sums. What is proved is composition of the rounds: ``docs/privacy/psgd.md``.
"""

import math

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting.l2_rounds import composed_epsilon
from masquerade_core.privacy.samplers.bits import TAIL_BITS
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.privacy.statement import PARTY_UNIT, Claim, digits
from masquerade_core.study import Study
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement
from masquerade_protocols.psgd.schedule import Variant, coarsest_bits, joint_noise, parameters_of

__all__ = ["gradient_statement", "variant_statement"]

_NEIGHBOURS = "replace one record, all sizes fixed"
_SOURCE = (
    "Rajkumar and Agarwal 2012, Proposition 3.1 for a round; T rounds by the law of their privacy losses, "
    "docs/privacy/psgd.md"
)
_PURE_SOURCE = "Rajkumar and Agarwal 2012, Proposition 3.1 for a round; basic composition of T rounds"
_NO_COLLUSION = "nothing: the paper assumes a secure sum"
_ASSUMPTIONS = (
    "everybody follows the protocol",
    "records are encoded by public bounds and clipped to norm 1; nothing else was chosen by looking at them",
    "what floating point adds to a sum of gradients is not counted: less than n_j^2 2^-52 of one of them",
    "N, the number of all records, is published as it is; sizes are not covered by epsilon",
    "the model is released once; every further run over the same records adds its own epsilon",
)


def variant_statement(name: str, variant: Variant, study: Study) -> tuple[Claim, ...]:
    """Return the statement of a study of ``psgd`` or of a rejected variant, whatever its calibration."""
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
    """Return the statement for ``psgd``, ``noisy-gradient`` or ``decaying-budget``.

    A record moves one round's sum by at most 2 L in L2 norm (Proposition 3.1), and by sqrt(d) units of the grid more,
    as a party's sum is rounded; and every honest party adds rho_t of density exp(-beta_t |x|_2), beta_t = eps_t/(2 L).
    So a round is (1 + sqrt(d) 2^-F/(2 L)) eps_t-private in the pure sense, for which one honest party's rho is enough.
    T rounds cost the sum of that, or less (:func:`~masquerade_core.privacy.accounting.l2_rounds.composed_epsilon`) at delta. eta
    adds nothing to this bound: it is the same in every round, so differences of rounds are free of it. The paper's own
    bound for psgd holds for the point that the descent approaches, and the descent's path is public.

    Parameters
    ----------
    name : str
        The protocol.
    K, d : int
        Parties; coordinates.
    L : float
        Bound on a gradient.
    eps, delta : float
        The study's wish; eps~ <= eps is what the noise of psgd gets.
    rounds : int
        T.
    colluders : int
        Parties that may side with Charlie.
    fraction_bits : int
        F of the coarsest grid there may be.
    """
    a_round = eps * (1 + math.sqrt(d) * 2.0**-fraction_bits / (2 * L))
    draws = rounds + (name == "psgd")
    total = a_round if name == "decaying-budget" else rounds * a_round
    lost, source = _lost(total, draws), _PURE_SOURCE
    if name != "decaying-budget" and (found := _composed(a_round, rounds, d, delta, draws)) < total:
        total, lost, source = found, delta, _SOURCE
    paper = {
        "psgd": f"probabilistic, epsilon = {eps:g}, delta = {delta:g} (Theorem 4.2)",
        "noisy-gradient": f"epsilon = {eps:g} for one round, {rounds * eps:g} for {rounds} (section 3.2, attempt 1)",
        "decaying-budget": f"pure, epsilon = {eps:g} (section 3.2)",
    }[name]
    at = eps if name == "decaying-budget" else eps / rounds
    instead = ', or calibration = "proven"' if name == "psgd" else ""
    shown = digits(total) if total else "0"

    eta = (
        " The noise that a party adds alike in all rounds is no help in this bound: the difference of two rounds is "
        "free of it."
        if name == "psgd"
        else ""
    )

    def row(view: str, text: str, *assumptions: str, claimed: str = paper) -> Claim:
        return Claim(
            view=view,
            unit="record",
            neighbours=_NEIGHBOURS,
            definition="approximate, computational",
            claimed=claimed,
            provable=f"epsilon = {shown}, delta = {lost:.1e}",
            epsilon=total,
            delta=lost,
            holds_at=f"this noise with epsilon = {at:.4g} in the study{instead}",
            source=source,
            assumptions=(*_ASSUMPTIONS, *assumptions),
            text=text,
        )

    t = max(1, colluders)
    honest = "the noise of one honest party stands" if K - t == 1 else f"the noise of {K - t} honest parties stands"
    return (
        row(
            "released model and all iterates",
            f"{rounds} noisy sums of gradients are public, and noise that is new in every round averages out. What is "
            f"proved is that all of them together cost no more than epsilon = {shown}.{eta}",
        ),
        row(
            "Charlie",
            "Charlie sees ciphertexts and the sums that everybody sees. A Charlie who breaks the rules can shift a "
            "sum, and so the point of the next gradients; the bound holds at any points.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
        ),
        row(
            "one party",
            "A party knows its own records and noise; the others' noise stands. The lead opens sums, never a part.",
            "the party colludes with nobody",
        ),
        row(
            "Charlie with the lead",
            "They hold the key and every ciphertext. Each contribution is masked with numbers unknown to them, so they "
            "see the sum of the others' contributions, with the others' noise.",
            "another party is honest",
            claimed=_NO_COLLUSION,
        ),
        row(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
            f"They take their own noise off; {honest}, and one party's is enough for this bound.",
            "at least one party is honest",
            claimed=_NO_COLLUSION,
        ),
        PARTY_UNIT,
    )


def _composed(a_round: float, rounds: int, d: int, delta: float, draws: int) -> float:
    """Return epsilon of all rounds at ``delta``, of which the draws' distance from their law takes its part.

    That part grows with the epsilon that is sought, so it is sought again until the part is enough.
    """
    found, taken = 0.0, 0.0
    while taken < delta:
        found = composed_epsilon(a_round, rounds, d, delta - taken)
        if _lost(found, draws) <= taken:
            return found
        taken = 2 * _lost(found, draws)
    return math.inf


def _lost(eps: float, draws: int) -> float:
    """Return delta, which adds up over draws: each one's cut-off and distance from its law, on both neighbours."""
    each = (2.0**-TAIL_BITS + 2.0**-L2_TV_BITS) * (1 + math.exp(min(eps, 700.0)))
    return min(1.0, draws * each)
