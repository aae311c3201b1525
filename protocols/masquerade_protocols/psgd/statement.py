"""Who sees what of a descent along noisy gradients: what Rajkumar and Agarwal claim, and what is proved.

Every view sees the whole transcript, which is all T opened sums. The iterates are public, so anyone who sees the model
may have seen all sums. What is proved is the composition of the T rounds: ``docs/privacy/psgd.md`` derives it.
"""

import math
from functools import partial

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.l2_rounds import composed_epsilon
from masquerade_core.privacy.several_records import Bound, Target, proven_settings, several_records
from masquerade_core.privacy.statement import COMPUTATIONAL, Claim, Rows, digits, honest_noise
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.psgd.schedule import RHO_TV_BITS, Variant, coarsest_bits, joint_noise, parameters_of

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
        return noisy_sums_statement(study, joint_noise(study, F))
    return gradient_statement(study, name, F)


def gradient_statement(study: Study, name: str, fraction_bits: int) -> tuple[Claim, ...]:
    """Return the statement for ``psgd``, ``noisy-gradient`` or ``decaying-budget`` with the paper's noise.

    A replaced record moves the sum of one round by at most 2 L in L2 norm (Proposition 3.1). A party's sum is rounded
    as a whole, which adds at most sqrt(d) units of the grid. Every honest party adds rho_t with density
    exp(-beta_t |x|_2), where beta_t = eps_t/(2 L). So a round is (1 + sqrt(d) 2^-F/(2 L)) eps_t-private in the pure
    sense, and one honest party's rho is enough for that. T rounds cost the sum of these numbers, or less at delta:
    :func:`~masquerade_core.privacy.noise.l2_rounds.composed_epsilon`.

    eta adds nothing to this bound. It is the same in every round, so the difference of two rounds is free of it. The
    paper's own bound for psgd holds for the point that the descent approaches; but the path of the descent is public.

    Parameters
    ----------
    study : Study
    name : str
        The protocol.
    fraction_bits : int
        F of the coarsest grid that there may be.
    """
    K, d, L, rounds = study.K, study.d, float(loss_of(study.model.loss).L), parameters_of(study).rounds
    eps, delta = study.privacy.epsilon, study.privacy.delta
    decaying = name == "decaying-budget"
    rounded = 1 + math.sqrt(d) * 2.0**-fraction_bits / (2 * L)
    total, lost, source = _cheapest(eps * rounded, rounds, d, delta, decaying=decaying)

    words, t = sum_words(study), max(1, study.privacy.colluders)
    often = 1 if decaying else rounds

    def settings(target: Target) -> str:
        if name == "psgd":
            return proven_settings(target)
        return f"epsilon = {digits(target.epsilon / rounded / often, math.floor)}"

    def of_several(size: int) -> Bound:
        several, spent, _ = _cheapest(size * eps * rounded, rounds, d, delta, decaying=decaying)
        return (several, spent) if spent < 1 else None

    row = partial(
        Rows(source=source, assumptions=_ASSUMPTIONS).proved,
        provable=f"epsilon = {digits(total)}, delta = {lost:.1e}",
        epsilon=total,
        delta=lost,
        holds_at=f'calibration = "proven" and colluders = {t} in the study'
        if name == "psgd"
        else f"epsilon = {digits(eps / rounded / often, math.floor)} in the study",
    )
    claimed = _claimed(name, eps, delta, rounds)
    eta = (
        " One part of each party's noise is the same in all rounds. It does not help here: the difference of two "
        "rounds is free of it."
        if name == "psgd"
        else ""
    )
    proved = f" It is proved that all rounds together cost no more than epsilon = {digits(total)}." if lost < 1 else ""
    theirs = f"They subtract their own noise; {honest_noise(K - t)} stays. One party's is enough for this bound."
    found = (
        row(
            "released model and all iterates",
            f"{counted(rounds, 'noisy sum of gradients is', 'noisy sums of gradients are')} public. The noise is new "
            f"in every round, so it averages out.{proved}{eta}",
            "an observer of the release sees nothing that only the participants see",
            definition="approximate",
            claimed=claimed,
        ),
        row(
            "Charlie",
            f"Charlie sees {words.charlie_sees}, and the sums that everybody sees.",
            words.charlie,
            claimed=claimed,
        ),
        row(
            "one party",
            f"A party knows its own records and its own noise; the others' noise stays. {words.one_party}",
            words.party,
            claimed=claimed,
        ),
        row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            theirs if K - t == 1 else f"{theirs} {words.together}",
            "the party that holds the record is honest" if K - t == 1 else words.others,
            definition="approximate" if K - t == 1 else COMPUTATIONAL,
            claimed=_NO_COLLUSION,
        ),
    )
    return (
        *found,
        *several_records(
            study,
            found[0],
            of_several,
            law="pure",
            settings=settings,
            settings_law="gaussian" if name == "psgd" else None,
        ),
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


def _cheapest(a_round: float, rounds: int, d: int, delta: float, *, decaying: bool) -> tuple[float, float, str]:
    """Return epsilon and delta of all rounds, and the source: the smaller epsilon of two bounds whose delta is below 1.

    The bounds are the sum of the rounds' epsilons, and the composition of T rounds at the study's delta.
    """
    total = a_round if decaying else rounds * a_round
    bounds = [(total, _lost(total, rounds), _PURE_SOURCE)]
    if not decaying:
        bounds.append((_composed(a_round, rounds, d, delta), delta, _SOURCE))
    proved = [bound for bound in bounds if math.isfinite(bound[0]) and bound[1] < 1]
    return min(proved, default=bounds[0])


def _composed(a_round: float, rounds: int, d: int, delta: float) -> float:
    """Return epsilon of all rounds at ``delta``, after the samplers' distance from their distributions took its part.

    That part grows with the epsilon that is found. So the search is repeated until the part is large enough.
    """
    found, taken = 0.0, 0.0
    while taken < delta:
        found = composed_epsilon(a_round, rounds, d, delta - taken)
        if _lost(found, rounds) <= taken:
            return found
        taken = 2 * _lost(found, rounds)
    return math.inf


def _lost(eps: float, draws: int) -> float:
    """Return the delta that the distance of all draws of rho from their law costs, on both neighbours.

    Noise beyond its slot costs nothing: whatever becomes of such a number depends on the noisy sum alone. Nor does eta
    cost anything, since the bound holds for every value that eta may have.
    """
    return min(1.0, draws * 2.0**-RHO_TV_BITS * (1 + math.exp(min(eps, 700.0))) * (1 + 1e-12))
