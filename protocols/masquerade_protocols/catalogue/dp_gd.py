"""dp-gd, for those who choose it."""

from masquerade_core.privacy.claims import Claim
from masquerade_core.privacy.dp_gd_claims import dp_gd_statement
from masquerade_core.study import Study
from masquerade_protocols import dp_gd
from masquerade_protocols.protocol import Explanation, Protocol, paragraphs

__all__ = ["DP_GD", "explain_proven"]

_LEAVES = """
Your records stay on your machine.

What leaves, in each of {rounds} rounds: the sum of your records' gradients at a classifier that everybody knows,{cut}
with your share of the noise on it, encrypted, and masked so that not even {lead}, who holds the key, can read it alone.
Before the first round, the number of your records, encrypted and masked in the same way.

What everybody sees: the number of all records together (of two parties, each so learns the other's), and the noisy sum
over all records, round by round. From these follows the model, and every classifier on the way to it.
"""
_COLLUSION = """
{wish}

Charlie and {lead} together hold the key and all ciphertexts, and still see only the sum of what the other parties sent,
with those parties' noise.

Parties that side with Charlie take their own noise off. {beyond}

Everybody is assumed to follow the protocol and to draw its share of the noise. A contribution that is dropped, doubled
or foreign ends the run; a party that lies about its records or adds no noise is not caught.
"""
_COST = """
Each of your records loses at most epsilon = {epsilon:g} of its privacy in all rounds together, but for a probability of
delta = {delta:g}. That is proved, of the model and of all that was seen on the way.{careful}

A second run over the same records costs the same again: the costs add up.
"""


def _chosen(study: Study) -> dp_gd.Parameters:
    return dp_gd.Parameters.model_validate(study.protocol)


def _statement(study: Study) -> tuple[Claim, ...]:
    return dp_gd_statement(
        dp_gd.noise_of(study),
        K=study.K,
        honest=study.honest,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        min_records=study.study.min_records,
    )


def _explain(study: Study) -> Explanation:
    chosen = _chosen(study)
    return explain_proven(study, chosen.rounds, f" each cut to a length of {chosen.clip:g},")


def explain_proven(study: Study, rounds: int, cut: str = "") -> Explanation:
    """Return the study in plain words: T noisy sums of gradients that keep the wish itself.

    Parameters
    ----------
    study : Study
    rounds : int
        T.
    cut : str
        What is done to a gradient before.
    """
    privacy, t = study.privacy, study.privacy.colluders
    if t:
        parties = "one other party sides" if t == 1 else f"{t} other parties side"
        wish = f"What is promised holds even if {parties} with Charlie."
        beyond = "If more do, less is promised; the privacy statement says how much."
    else:
        wish = "What is promised holds against Charlie, and against all who see the model."
        beyond = (
            "The noise is sized for nobody doing so. Every party knows its own noise, so less is promised against a "
            "party than against outsiders; the privacy statement says how much. Set colluders to 1 or more, and there "
            "will be more noise."
        )
    fewest = study.K * study.study.min_records
    careful = (
        f" Such a delta is large: with {fewest:,} records it allows one of them to be published."
        if privacy.delta * fewest >= 1
        else ""
    )
    words = {
        "lead": study.lead,
        "rounds": rounds,
        "cut": cut,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "wish": wish,
        "beyond": beyond,
        "careful": careful,
    }
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


DP_GD = Protocol(
    name="dp-gd",
    paper="this program's own",
    party=dp_gd.party,
    charlie=dp_gd.charlie,
    parameters=dp_gd.Parameters,
    section="# How many noisy sums of gradients are opened.\nrounds = 20\n"
    "# The longest gradient of a record; longer ones are cut.\nclip = 0.5\n"
    "# The length of a step.\nlearning_rate = 4.0\n",
    stages=("keys", "rounds"),
    check=dp_gd.check,
    statement=_statement,
    explain=_explain,
    calibrations=("proven",),
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
)
