"""The protocols by name: what each needs of a study, what its roles are, and how it is explained to people."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.model import Model
from masquerade_core.privacy.claims import Claim, local_aggregation_statement
from masquerade_core.privacy.gradient_claims import gradient_statement
from masquerade_core.seat import Effect, Seat
from masquerade_core.study import Study, check_section
from masquerade_protocols import local_aggregation, psgd
from masquerade_protocols.baselines import BASELINES

__all__ = ["PROTOCOLS", "Explanation", "Protocol", "protocol_of", "section_of"]

Role = Coroutine[Effect, Any, Model]


@dataclass(frozen=True)
class Explanation:
    """A study in a data steward's words: what leaves the machine, who must not collude, what it costs."""

    leaves: tuple[str, ...]
    collusion: tuple[str, ...]
    cost: tuple[str, ...]


@dataclass(frozen=True)
class Protocol:
    """One protocol.

    Parameters
    ----------
    name : str
        As in the study's ``protocol`` and in results.
    paper : str
        Where it comes from.
    party, charlie : callable
        The roles.
    parameters : type of BaseModel
        The study's ``[protocol]`` section.
    section : str
        The ``[protocol]`` section of a new study, as commented TOML.
    stages : tuple of str
        The stages that the roles announce, in order.
    check : callable
        Raises BadInput for a study that this protocol cannot carry out.
    statement : callable
        The privacy statement that follows from the study.
    explain : callable
        The study in plain words.
    """

    name: str
    paper: str
    party: Callable[[Seat, Study, Dataset], Role]
    charlie: Callable[[Seat, Study], Role]
    parameters: type[BaseModel]
    section: str
    stages: tuple[str, ...]
    check: Callable[[Study], object]
    statement: Callable[[Study], tuple[Claim, ...]]
    explain: Callable[[Study], Explanation]


def _local_aggregation_statement(study: Study) -> tuple[Claim, ...]:
    return local_aggregation_statement(
        K=study.K,
        d=study.d,
        eps=study.privacy.epsilon,
        delta=study.privacy.delta,
        Lambda=study.model.regularization,
        noise=local_aggregation.Parameters.model_validate(study.protocol).noise,
        fraction_bits=local_aggregation.FRACTION_BITS,
        colluders=study.privacy.colluders,
        min_records=study.study.min_records,
    )


_LEAVES = """
Your records stay on your machine. A classifier is trained on them here, before you join.

What leaves: coins that shuffle the parties; the number of your records, split into two random halves of which {lead}
gets one and Charlie the other, his without your name; noise, encrypted and masked; and your classifier, hidden behind a
random number as large as the key.

What is published: {shares} random-looking shares. They add up to the sum of the {K} classifiers and of the noise that
the party with the fewest records drew. Anybody can add them up; that sum is the model. Where the noise is not small,
it also shows roughly how many records that party has.
"""
_COLLUSION = """
Charlie and {lead} must not work together: with both their keys they read everybody's number of records and whose noise
was taken, though no single classifier. If it was {lead}'s own, they take it off the model.

Charlie and any other party together learn of {pairs} pairs of parties which has fewer records, and who has the
fewest. If it is that party, it can take its noise off the model.

The party with the fewest records can do so alone, for it knows the noise: that is the paper's design. With two parties
it then holds the other's classifier.

Everybody is assumed to follow the protocol. A party that lies about its records, and a Charlie who steers the
comparison, are not caught.
"""
_COST = """
The paper claims that each of your records loses at most epsilon = {epsilon:g} of its privacy to whoever sees the model.
What is proved, and against whom, stands in the privacy statement.

A second run over the same records costs the same again: the costs add up.
"""


def _explain_local_aggregation(study: Study) -> Explanation:
    words = {
        "lead": study.lead,
        "K": study.K,
        "shares": study.K + 1,
        "pairs": study.K - 1,
        "epsilon": study.privacy.epsilon,
    }

    return Explanation(*(_paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


def _paragraphs(text: str, words: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(" ".join(p.split()).format(**words) for p in text.strip().split("\n\n"))


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
{total:g}.

A second run over the same records costs the same again: the costs add up.
"""


def _gradients(name: str, variant: psgd.Variant, claim: str) -> Protocol:
    """The three protocols of Rajkumar and Agarwal differ in their noise alone."""

    def statement(study: Study) -> tuple[Claim, ...]:
        return gradient_statement(
            name=name,
            K=study.K,
            eps=study.privacy.epsilon,
            delta=study.privacy.delta,
            rounds=psgd.Parameters.model_validate(study.protocol).rounds,
            colluders=study.privacy.colluders,
        )

    def explain(study: Study) -> Explanation:
        proved = statement(study)[0].epsilon
        rounds = psgd.Parameters.model_validate(study.protocol).rounds
        words = {"lead": study.lead, "rounds": rounds, "total": proved, "epsilon": study.privacy.epsilon}
        words["claim"] = claim.format(**words)
        texts = (_GRADIENTS_LEAVE, _GRADIENTS_COLLUSION, _GRADIENTS_COST)
        return Explanation(*(_paragraphs(text, words) for text in texts))

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
    )


PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol(
            name="local-aggregation",
            paper="Pathak, Rane and Raj 2010",
            party=local_aggregation.party,
            charlie=local_aggregation.charlie,
            parameters=local_aggregation.Parameters,
            section='# Or "l2".\nnoise = "laplace"\n',
            stages=("training", "keys", "stage 1: smallest data set", "stage 2: noise", "stage 3: shares"),
            check=local_aggregation.packing,
            statement=_local_aggregation_statement,
            explain=_explain_local_aggregation,
        ),
        _gradients(
            "psgd",
            psgd.psgd,
            "The paper claims that each of your records loses at most epsilon = {epsilon:g} of its privacy in all.",
        ),
        _gradients(
            "noisy-gradient",
            psgd.noisy,
            "The paper rejects this protocol: it costs epsilon = {epsilon:g} a round. Keep it for comparisons.",
        ),
        _gradients(
            "decaying-budget",
            psgd.decaying,
            "The paper rejects this protocol: late rounds are all noise. Keep it for comparisons.",
        ),
    )
}


def _named(name: str) -> Protocol:
    if name in BASELINES:
        raise BadInput(
            f"[study] protocol is {name!r}, a baseline: somebody holds everybody's records, and there is nobody to "
            "talk to",
            "run it with 'masquerade simulate'",
        )
    if name not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise BadInput(f"[study] protocol is {name!r}; the protocols are {known}", "correct the study's protocol")
    return PROTOCOLS[name]


def section_of(name: str) -> str:
    """Return the ``[protocol]`` section of a new study for this protocol; BadInput where there is none of that name."""
    return _named(name).section


def protocol_of(study: Study) -> Protocol:
    """Return the protocol that a study names, after a check that it can carry the study out.

    Raises
    ------
    BadInput
        There is no such protocol; its section has an unknown key or a value out of range; or its numbers fit no key.
    """
    protocol = _named(study.study.protocol)
    check_section(protocol.parameters, study.protocol, "protocol")
    protocol.check(study)
    return protocol
