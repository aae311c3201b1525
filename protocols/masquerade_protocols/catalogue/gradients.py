"""The three protocols of Rajkumar and Agarwal, for those who choose one; they differ in their noise alone."""

from functools import partial

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.claims import Claim
from masquerade_core.privacy.dp_gd_claims import dp_gd_statement
from masquerade_core.privacy.gradient_claims import gradient_statement
from masquerade_core.study import Study
from masquerade_protocols import psgd
from masquerade_protocols.catalogue.dp_gd import explain_proven
from masquerade_protocols.protocol import Explanation, Protocol, paragraphs

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
    variant: psgd.Variant,
    claim: str,
    calibrations: tuple[str, ...] = ("paper",),
    on_the_noise: str = "the noise does not depend on it",
) -> Protocol:
    def statement(study: Study) -> tuple[Claim, ...]:
        F = psgd.coarsest_bits(study, variant)
        if study.proven:
            return dp_gd_statement(
                psgd.joint_noise(study, F),
                K=study.K,
                honest=study.honest,
                epsilon=study.privacy.epsilon,
                delta=study.privacy.delta,
                min_records=study.study.min_records,
            )
        return gradient_statement(
            name=name,
            K=study.K,
            d=study.d,
            L=float(loss_of(study.model.loss).L),
            eps=study.privacy.epsilon,
            delta=study.privacy.delta,
            rounds=psgd.Parameters.model_validate(study.protocol).rounds,
            colluders=study.privacy.colluders,
            fraction_bits=F,
        )

    def explain(study: Study) -> Explanation:
        if study.proven:
            return explain_proven(study, psgd.Parameters.model_validate(study.protocol).rounds)
        proved = statement(study)[0].epsilon
        rounds = psgd.Parameters.model_validate(study.protocol).rounds
        words = {"lead": study.lead, "rounds": rounds, "total": proved, "epsilon": study.privacy.epsilon}
        words["claim"] = claim.format(**words)
        texts = (_GRADIENTS_LEAVE, _GRADIENTS_COLLUSION, _GRADIENTS_COST)
        return Explanation(*(paragraphs(text, words) for text in texts))

    return Protocol(
        name=name,
        paper="Rajkumar and Agarwal 2012",
        party=partial(psgd.party, variant=variant),
        charlie=partial(psgd.charlie, variant=variant),
        parameters=psgd.Parameters,
        section="# How many noisy sums of gradients are opened.\nrounds = 100\n",
        stages=("keys", "rounds"),
        check=partial(psgd.check, variant=variant),
        statement=statement,
        explain=explain,
        calibrations=calibrations,
        regularization_note=f"the larger, the simpler the model; {on_the_noise}",
    )


PSGD = _gradients(
    "psgd",
    psgd.psgd,
    "The paper claims that each of your records loses at most epsilon = {epsilon:g} of its privacy in all.",
    ("paper", "proven"),
    'a very small one makes "paper" noise larger',
)

NOISY_GRADIENT = _gradients(
    "noisy-gradient",
    psgd.noisy,
    "The paper rejects this protocol: it costs epsilon = {epsilon:g} a round. Keep it for comparisons.",
)

DECAYING_BUDGET = _gradients(
    "decaying-budget",
    psgd.decaying,
    "The paper rejects this protocol: late rounds are all noise. Keep it for comparisons.",
)
