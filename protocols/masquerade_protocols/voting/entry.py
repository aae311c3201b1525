"""The two protocols of Hamm, Cao and Belkin, for those who choose one; they differ in what becomes of the votes."""

import math
from typing import Any

from masquerade_core.privacy.noise.vote_counts import COUNT_BITS
from masquerade_core.privacy.noise.votes import sharp_sensitivity
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.voting import roles as voting
from masquerade_protocols.voting.noiseless import noiseless
from masquerade_protocols.voting.proven_statement import proven_vote_statement
from masquerade_protocols.voting.statement import vote_statement

__all__ = ["SOFT", "VOTE"]

_TIES = """\
# Where classes have as many votes: the one that stands first wins, and of two values the positive one.
ties = "first"
"""
_UNSEEN = """\
# May a party take part whose records lack a class? Or "allow".
unseen_classes = "refuse"
"""
_SAMPLES = """\
# Is each auxiliary sample to be protected as well, from those who get the model?
private_auxiliary = false
"""

_LEAVES = """
Your records stay on your machine. A classifier of whatever kind you choose is trained on them here, before you join. It
does not leave, either.

What leaves: how your classifier labels {N} auxiliary records, which everybody has. These votes {noise}are encrypted,
and so masked that not even {lead}, who holds the key, can read yours alone.

What Charlie sees: at each auxiliary record, how many of the {K} parties voted for what{precisely}. {use}

What is published: that classifier{published}. You see no more than that.
"""
_USE = {
    "vote": "He trains a classifier on what the majority said.",
    "soft": "He trains a classifier on the fractions of votes.",
}
_COLLUSION = """
Charlie has to be trusted with the counts: he sees them exactly, and he knows the noise. Where all vote alike he knows
your vote, too. He must not hand the counts on.

Charlie and any other party together take that party's votes off the counts. With all parties but you, they have yours.
What your votes tell of your records, nothing hides from them.

The other parties learn nothing but the model, {lead} included: the counts that {lead} opens for Charlie are hidden
behind random numbers of his.

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or foreign ends the run; a party
that votes for what its classifier did not say is not caught, nor is {lead} if it adds to the counts that it opens.
"""
_COST = """
The paper claims that whoever sees the model learns of all your records together no more than epsilon = {epsilon:g}
allows. What is proved is {proved}, for a party and so for each of its records. Against whom, stands in the
privacy statement.{auxiliary}

A second run over the same records costs the same again: the costs add up.
"""
_PROVEN_COLLUSION = """
Nobody has to be trusted with the counts: each carries noise, of which every party draws a share that it tells nobody.

The shares of any {honest} parties are enough for what is promised. Charlie may side with {colluders}; with more, the
promise shrinks, and the privacy statement says to what. A party that draws no noise is missed like one more of those.

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or foreign ends the run; a party
that votes for what its classifier did not say is not caught, nor is {lead} if it adds to the counts that it opens.
"""
_PROVEN_COST = """
All your records together lose at most epsilon = {epsilon:g} of their privacy, but for a probability of delta =
{delta:g}. That is proved, against everybody who sees the counts or the model.

What it costs: at each auxiliary record, the count of {K} votes has noise of standard deviation {deviation:.3g}. It does
not grow with the number of parties, so it takes many of them. The fewer auxiliary records there are, the smaller it is.

A second run over the same records costs the same again: the costs add up.
"""
_AUXILIARY = " Of each auxiliary sample together with a party: {sample}."


def _statement(study: Study) -> tuple[Claim, ...]:
    chosen = voting.SoftParameters.model_validate({k: v for k, v in study.protocol.items() if k != "ties"})
    if study.proven:
        reach = sharp_sensitivity(
            soft=study.study.protocol == "soft",
            loss=study.model.loss,
            classes=study.classes,
            Lambda=study.model.regularization,
            M=study.K,
        )
        return proven_vote_statement(
            voting.noise_of(study),
            M=study.K,
            N=chosen.auxiliary.records,
            classes=study.classes or 2,
            honest=study.honest,
            epsilon=study.privacy.epsilon,
            delta=study.privacy.delta,
            on_the_model=(reach, study.outputs * study.d * reach / study.privacy.epsilon),
        )
    return vote_statement(
        name=study.study.protocol,
        M=study.K,
        N=chosen.auxiliary.records,
        dimensions=study.outputs * study.d,
        loss=study.model.loss,
        classes=study.classes,
        beta=float(voting.beta(study)),
        eps=study.privacy.epsilon,
        Lambda=study.model.regularization,
        fraction_bits=voting.FRACTION_BITS,
        colluders=study.privacy.colluders,
        private_auxiliary=chosen.private_auxiliary,
    )


def _explain(study: Study) -> Explanation:
    words: dict[str, Any] = {
        "lead": study.lead,
        "K": study.K,
        "N": study.protocol["auxiliary"]["records"],
        "use": _USE[study.study.protocol],
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
    }
    if study.proven:
        t = study.privacy.colluders
        words |= {
            "noise": "get your share of noise, ",
            "precisely": ", with everybody's noise in it",
            "published": "",
            "honest": study.honest,
            "colluders": "nobody" if not t else "one party" if t == 1 else f"{t} parties",
            "deviation": math.sqrt(study.K) * float(voting.noise_of(study).share) / (1 << COUNT_BITS),
        }
        return _explained(_PROVEN_COLLUSION, _PROVEN_COST, words)
    claims = _statement(study)
    samples = [claim.provable for claim in claims if claim.unit == "auxiliary sample"]
    words |= {
        "noise": "",
        "precisely": "",
        "published": ", with noise that Charlie adds",
        "proved": claims[0].provable,
        "auxiliary": _AUXILIARY.format(sample=samples[0]) if samples else "",
    }
    return _explained(_COLLUSION, _COST, words)


def _explained(collusion: str, cost: str, words: dict[str, Any]) -> Explanation:
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, collusion, cost)))


def _cost(study: Study) -> Cost:
    return price_of_sums(study, [voting.layout(study).count], blinded=True)


def _voting(name: str, parameters: type[voting.SoftParameters], ties: str = "") -> Protocol:
    return Protocol(
        name=name,
        paper="Hamm, Cao and Belkin 2016",
        party=voting.party,
        charlie=voting.charlie,
        parameters=parameters,
        section=ties + _UNSEEN + _SAMPLES,
        stages=("training", "keys", "votes", "model"),
        check=voting.check,
        statement=_statement,
        explain=_explain,
        noiseless=noiseless,
        cost=_cost,
        calibrations=("paper", "proven"),
        proven_section=ties + _UNSEEN,
        multiclass=True,
        classifiers=True,
        auxiliary=True,
        regularization_note='the larger, the simpler the model; with "paper" noise also the less noise',
    )


VOTE = _voting("vote", voting.VoteParameters, _TIES)

SOFT = _voting("soft", voting.SoftParameters)
