"""The entries of Rajkumar and Agarwal's three protocols, which differ in their noise alone."""

from fractions import Fraction
from functools import partial

from masquerade_core.data.records import fewest_to_learn_from
from masquerade_core.privacy.statement import Claim, gained
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.descent import descent_lengths
from masquerade_protocols.blocks.evaluation import with_evaluation
from masquerade_protocols.blocks.explanation import explain_noisy_sums, of_a_person
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums, with_retries
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.psgd import roles, schedule
from masquerade_protocols.psgd.noiseless import expectation, noiseless
from masquerade_protocols.psgd.statement import variant_statement

__all__ = ["DECAYING_BUDGET", "NOISY_GRADIENT", "PSGD"]

_LEAVES = """
Your records stay on your machine.

What leaves, in {rounds}: the sum of your records' gradients, with your own noise added. A record's gradient tells how
that record would change a classifier that everybody knows. The sum is {hidden}. Before the first round, the number of
your records leaves, hidden in the same way.

What everybody sees: the number of all records together, and the sum of all noisy gradients, round by round. If there
are only two parties, each learns the other's number of records. The model follows from these sums, and so does the
classifier of every round.
"""
_COLLUSION = """
{collusion}

Parties that side with Charlie subtract their own noise. The guarantee rests on the noise of one honest party.

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or from another run ends the run.
Nobody notices a party that lies about its records.
"""
_COST = """
{claim} {proved} The privacy statement says against whom.{person}

A second run over the same records costs the same again: the costs add up.
"""


def _statement(study: Study, name: str, variant: schedule.Variant) -> tuple[Claim, ...]:
    return variant_statement(name, variant, study)


def _explain(study: Study, name: str, variant: schedule.Variant, claim: str) -> Explanation:
    rounds = schedule.parameters_of(study).rounds
    if study.proven:
        return explain_noisy_sums(study, rounds)
    proved = variant_statement(name, variant, study)[0]
    sums = sum_words(study)
    words = {
        "hidden": sums.hidden,
        "collusion": sums.collusion,
        "rounds": "one round" if rounds == 1 else f"each of {counted(rounds, 'round')}",
        "claim": claim.format(epsilon=study.privacy.epsilon),
        "proved": "Over the whole run, nothing is proved: delta would reach 1."
        if proved.epsilon is None or proved.delta is None
        else f"Over the whole run, {proved.provable} are proved. "
        + gained(proved.epsilon, proved.delta, about="one of your records"),
        "person": of_a_person(study),
    }
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


def _cost(study: Study, variant: schedule.Variant) -> Cost:
    """Return the cost of a run with the fewest records that the study allows."""
    N, rounds = fewest_to_learn_from(study), schedule.parameters_of(study).rounds
    return price_of_sums(study, [1, *(slots.count for slots in schedule.layouts(study, variant(study, N), N, rounds))])


def _entry(
    name: str,
    variant: schedule.Variant,
    claim: str,
    calibrations: tuple[str, ...] = ("paper",),
    on_the_noise: str = "the noise does not depend on it",
    theorems: str = "",
) -> Protocol:
    return Protocol(
        name=name,
        sum_lengths=descent_lengths,
        meaning=2,
        paper="Rajkumar and Agarwal 2012",
        party=partial(roles.party, variant=variant),
        charlie=partial(roles.charlie, variant=variant),
        streams=True,
        parameters=schedule.Parameters,
        section="# How many noisy sums of gradients are opened.\nrounds = 100\n",
        stages=("keys", "rounds"),
        check=partial(roles.check, variant=variant),
        statement=partial(_statement, name=name, variant=variant),
        explain=partial(_explain, name=name, variant=variant, claim=claim),
        noiseless=partial(noiseless, variant=variant, name=name),
        cost=partial(_cost, variant=variant),
        spends=spends_gaussian,
        expectation=partial(expectation, variant=variant),
        calibrations=calibrations,
        regularization_note=f"the larger, the simpler the model; {on_the_noise}",
        theorems=theorems,
    )


_PSGD = with_evaluation(
    _entry(
        "psgd",
        schedule.psgd,
        "The paper claims epsilon = {epsilon:g} for each of your records, in all rounds together.",
        ("paper", "proven"),
        'a very small one makes "paper" noise larger',
        "masquerade_protocols.psgd.theorems",
    )
)
PSGD = with_retries(_PSGD, lambda study: Fraction(1, schedule.parameters_of(study).rounds))

NOISY_GRADIENT = _entry(
    "noisy-gradient",
    schedule.noisy,
    "The paper rejects this protocol, because every round costs epsilon = {epsilon:g}. Use it for comparisons alone.",
)

DECAYING_BUDGET = _entry(
    "decaying-budget",
    schedule.decaying,
    "The paper rejects this protocol, because late rounds are all noise. Use it for comparisons alone.",
)
