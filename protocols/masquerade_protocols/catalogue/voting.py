"""The two protocols of Hamm, Cao and Belkin, for those who choose one; they differ in what becomes of the votes."""

from masquerade_core.privacy.claims import Claim
from masquerade_core.privacy.vote_claims import vote_statement
from masquerade_core.study import Study
from masquerade_protocols import voting
from masquerade_protocols.protocol import Explanation, Protocol, paragraphs

__all__ = ["SOFT", "VOTE"]

_TIES = """\
# Where classes have as many votes: the one that stands first wins, and of two values the positive one.
ties = "first"
"""
_SECTION = """\
# May a party take part whose records lack a class? Or "allow".
unseen_classes = "refuse"
# Is each auxiliary sample to be protected as well, from those who get the model?
private_auxiliary = false
"""

_LEAVES = """
Your records stay on your machine. A classifier of whatever kind you choose is trained on them here, before you join. It
does not leave, either.

What leaves: how your classifier labels {N} auxiliary records, which everybody has. These votes are encrypted, and so
masked that not even {lead}, who holds the key, can read yours alone.

What Charlie sees: at each auxiliary record, how many of the {K} parties voted for what. {use}

What is published: that classifier, with noise that Charlie adds. You see no more than that.
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
that votes for what its classifier did not say is not caught.
"""
_COST = """
The paper claims that whoever sees the model learns of all your records together no more than epsilon = {epsilon:g}
allows. That is proved: {proved}, for a party and so for each of its records. Against whom, stands in the
privacy statement.{auxiliary}

A second run over the same records costs the same again: the costs add up.
"""
_AUXILIARY = " Of each auxiliary sample together with a party: {sample}."


def _statement(study: Study) -> tuple[Claim, ...]:
    chosen = voting.SoftParameters.model_validate({k: v for k, v in study.protocol.items() if k != "ties"})
    return vote_statement(
        name=study.study.protocol,
        M=study.K,
        N=chosen.auxiliary.records,
        dimensions=study.outputs * study.d,
        softmax=study.multiclass,
        beta=float(voting.beta(study)),
        eps=study.privacy.epsilon,
        Lambda=study.model.regularization,
        fraction_bits=voting.FRACTION_BITS,
        colluders=study.privacy.colluders,
        private_auxiliary=chosen.private_auxiliary,
    )


def _explain(study: Study) -> Explanation:
    claims = _statement(study)
    samples = [claim.provable for claim in claims if claim.unit == "auxiliary sample"]
    words = {
        "lead": study.lead,
        "K": study.K,
        "N": study.protocol["auxiliary"]["records"],
        "use": _USE[study.study.protocol],
        "epsilon": study.privacy.epsilon,
        "proved": claims[0].provable,
        "auxiliary": _AUXILIARY.format(sample=samples[0]) if samples else "",
    }
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


def _voting(name: str, parameters: type[voting.SoftParameters], section: str) -> Protocol:
    return Protocol(
        name=name,
        paper="Hamm, Cao and Belkin 2016",
        party=voting.party,
        charlie=voting.charlie,
        parameters=parameters,
        section=section,
        stages=("training", "keys", "votes", "model"),
        check=voting.check,
        statement=_statement,
        explain=_explain,
        multiclass=True,
        classifiers=True,
    )


VOTE = _voting("vote", voting.VoteParameters, _TIES + _SECTION)

SOFT = _voting("soft", voting.SoftParameters, _SECTION)
