"""``vote`` and ``soft`` of Hamm, Cao and Belkin, for those who choose a protocol."""

import math
from typing import Any

from masquerade_core.privacy.noise.vote_counts import COUNT_BITS
from masquerade_core.privacy.statement import gained
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.explanation import of_a_person
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.voting import public, roles
from masquerade_protocols.voting.noiseless import expectation, noiseless
from masquerade_protocols.voting.statement import statement

__all__ = ["SOFT", "VOTE"]

_TIES = """\
# Who wins where several classes have as many votes? The class that stands first; of two values, the positive one.
ties = "first"
"""
_SAMPLES = """\
# Is each auxiliary sample to be protected as well, from those who get the model?
private_auxiliary = false
"""

_LEAVES = """
Your records stay on your machine. Before you join, your machine trains a classifier on them, of any kind that
you choose. The classifier does not leave, either.

What leaves: your classifier's labels for {N} auxiliary records, which all parties have. These votes {noise}are
{hidden}.

What Charlie sees: how many of the {K} parties voted for each class, at each auxiliary record{precisely}. {use}

What is published: that classifier{published}. You see no more than that.
"""
_USE = {
    "vote": "He trains a classifier on the class that the majority chose.",
    "soft": "He trains a classifier on the fractions of votes.",
}
_COLLUSION = """
Charlie has to be trusted with the counts: he sees them exactly, and he knows the noise. Where all parties vote alike,
he knows your vote as well. He must not hand the counts on.

Charlie and another party together can take that party's votes off the counts. Charlie and all parties but you together
know your votes. Nothing hides from them what your votes tell of your records.

The other parties learn nothing but the model. {counts}

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or from another run ends the run.
Nobody notices if a party votes against its own classifier{tampers}.
"""
_COST = """
The paper claims epsilon = {epsilon:g} for all your records together, against somebody who sees the model. What is
proved is {proved}, for a party and so for each of its records. The privacy statement says against whom this
holds.{auxiliary}{gained}{person}

A second run over the same records costs the same again: the costs add up.
"""
_PROVEN_COLLUSION = """
Nobody has to be trusted with the counts. Each count carries noise, and every party draws a share of it that it tells
nobody.

The shares of any {honest} are enough to meet the privacy target. So it holds if Charlie colludes with {colluders}. Each
further party on his side weakens the promise, and so does each party that draws no noise. The privacy statement says by
how much.

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or from another run ends the run.
Nobody notices if a party votes against its own classifier{tampers}.
"""
_PROVEN_COST = """
{gained} That is proved against everybody who sees the counts or the model.{person}

What it costs: at each auxiliary record, the count of {K} votes has noise of standard deviation {deviation:.3g}. This
noise does not grow with the number of parties, so more parties make it matter less. With fewer auxiliary records there
is less noise.

A second run over the same records costs the same again: the costs add up.
"""
_AUXILIARY = " For each auxiliary sample together with a party, it is {sample}."


def _explain(study: Study) -> Explanation:
    sums = sum_words(study)
    words: dict[str, Any] = {
        "hidden": sums.hidden_all,
        "counts": sums.counts,
        "tampers": sums.counts_tampered,
        "person": of_a_person(study),
        "K": study.K,
        "N": study.protocol["auxiliary"]["records"],
        "use": _USE[study.study.protocol],
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
    }
    if study.proven:
        t = study.privacy.colluders
        words |= {
            "gained": gained(study.privacy.epsilon, study.privacy.delta, about="all your records together"),
            "noise": "get your share of noise, and they ",
            "precisely": ", with everybody's noise in it",
            "published": "",
            "honest": counted(study.honest, "party", "parties"),
            "colluders": f"at most {counted(t, 'party', 'parties')}" if t else "nobody",
            "deviation": math.sqrt(study.K) * float(public.noise_of(study).share) / (1 << COUNT_BITS),
        }
        return _explained(_PROVEN_COLLUSION, _PROVEN_COST, words)
    claims = statement(study)
    samples = [claim.provable for claim in claims if claim.unit == "auxiliary sample"]
    model = claims[0]
    words |= {
        "gained": ""
        if model.epsilon is None or model.delta is None
        else " " + gained(model.epsilon, model.delta, about="all your records together"),
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
    return price_of_sums(study, [public.layout(study).count], blinded=True)


def _voting(name: str, parameters: type[public.SoftParameters], ties: str = "") -> Protocol:
    return Protocol(
        name=name,
        sum_lengths=lambda study: {public.layout(study).length},
        meaning=2,
        paper="Hamm, Cao and Belkin 2016",
        party=roles.party,
        streams=True,
        charlie=roles.charlie,
        parameters=parameters,
        section=ties + _SAMPLES,
        stages=("training", "keys", "votes", "model"),
        check=public.check,
        statement=statement,
        explain=_explain,
        noiseless=noiseless,
        cost=_cost,
        spends=spends_gaussian,
        opens_sizes=lambda _: False,
        expectation=expectation,
        calibrations=("paper", "proven"),
        proven_section=ties or "# There is nothing to choose: the noise follows from the privacy target.\n",
        multiclass=True,
        classifiers=True,
        protects_parties=True,
        auxiliary=True,
        theorems="masquerade_protocols.voting.theorems",
        regularization_note='the larger, the simpler the model; with "paper" noise also the less noise',
    )


VOTE = _voting("vote", public.VoteParameters, _TIES)

SOFT = _voting("soft", public.SoftParameters)
