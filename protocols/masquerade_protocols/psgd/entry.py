"""The three protocols of Rajkumar and Agarwal, for those who choose one; they differ in their noise alone."""

from functools import partial

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks.noisy_sums import explain_noisy_sums
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.psgd import roles, schedule
from masquerade_protocols.psgd.noiseless import noiseless
from masquerade_protocols.psgd.statement import variant_statement

__all__ = ["DECAYING_BUDGET", "NOISY_GRADIENT", "PSGD"]

_GRADIENTS_LEAVE = """
Your records stay on your machine.

What leaves, in each of {rounds} rounds: the sum of your records' gradients at a classifier that everybody knows, with
noise of your own on it, encrypted, and masked so that not even {lead}, who holds the key, can read it alone. Before the
first round, the number of your records, encrypted and masked in the same way.

What everybody sees: the number of all records together (of two parties, each so learns the other's), and the sum of all
noisy gradients, round by round. From these follows the model, and every classifier on the way to it.
"""
_GRADIENTS_COLLUSION = """
Charlie and {lead} together hold the key and all ciphertexts, and still see only the sum of what the other parties sent,
with those parties' noise.

Parties that side with Charlie take their own noise off; what is proved stands on the noise of one honest party.

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or foreign ends the run; a party
that lies about its records is not caught.
"""
_GRADIENTS_COST = """
{claim} What is proved of the whole run, and against whom, stands in the privacy statement: it is epsilon =
{total:.4g}.

A second run over the same records costs the same again: the costs add up.
"""


def _gradients(
    name: str,
    variant: schedule.Variant,
    claim: str,
    calibrations: tuple[str, ...] = ("paper",),
    on_the_noise: str = "the noise does not depend on it",
) -> Protocol:
    def statement(study: Study) -> tuple[Claim, ...]:
        return variant_statement(name, variant, study)

    def cost(study: Study) -> Cost:
        """Price a run at the fewest records that there may be."""
        N = study.K * study.study.min_records
        T, planned = schedule.parameters_of(study).rounds, variant(study, N)
        return price_of_sums(study, [1, *(slots.count for slots in schedule.layouts(study, planned, N, T))])

    def explain(study: Study) -> Explanation:
        if study.proven:
            return explain_noisy_sums(study, schedule.parameters_of(study).rounds)
        proved = statement(study)[0].epsilon
        rounds = schedule.parameters_of(study).rounds
        words = {"lead": study.lead, "rounds": rounds, "total": proved, "epsilon": study.privacy.epsilon}
        words["claim"] = claim.format(**words)
        texts = (_GRADIENTS_LEAVE, _GRADIENTS_COLLUSION, _GRADIENTS_COST)
        return Explanation(*(paragraphs(text, words) for text in texts))

    return Protocol(
        name=name,
        paper="Rajkumar and Agarwal 2012",
        party=partial(roles.party, variant=variant),
        charlie=partial(roles.charlie, variant=variant),
        parameters=schedule.Parameters,
        section="# How many noisy sums of gradients are opened.\nrounds = 100\n",
        stages=("keys", "rounds"),
        check=partial(roles.check, variant=variant),
        statement=statement,
        explain=explain,
        noiseless=partial(noiseless, variant=variant, name=name),
        cost=cost,
        calibrations=calibrations,
        regularization_note=f"the larger, the simpler the model; {on_the_noise}",
    )


PSGD = _gradients(
    "psgd",
    schedule.psgd,
    "The paper claims that each of your records loses at most epsilon = {epsilon:g} of its privacy in all.",
    ("paper", "proven"),
    'a very small one makes "paper" noise larger',
)

NOISY_GRADIENT = _gradients(
    "noisy-gradient",
    schedule.noisy,
    "The paper rejects this protocol: it costs epsilon = {epsilon:g} a round. Keep it for comparisons.",
)

DECAYING_BUDGET = _gradients(
    "decaying-budget",
    schedule.decaying,
    "The paper rejects this protocol: late rounds are all noise. Keep it for comparisons.",
)
