"""Descent on noisy examples, for those who choose it."""

from masquerade_core.learning.input_noise import FRACTION_BITS
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.input_noise import roles as input_noise
from masquerade_protocols.input_noise.noiseless import noiseless
from masquerade_protocols.input_noise.statement import input_noise_statement

__all__ = ["INPUT_NOISE"]

_SECTION = """\
# Noise of the scale 1/alpha on every record: the smaller alpha, the more private, and the noisier.
alpha = 1.0
# Or "l2".
noise = "gaussian"
# Perturb each record once, and keep the noisy copy. The paper's own way, false, takes new noise at every access, and
# every access costs again.
once = true
# The paper's own way, "as they are", leaves labels without any protection; it takes no epsilon_y.
labels = "randomised-response"
# A label is kept with probability e^epsilon_y/(1 + e^epsilon_y).
epsilon_y = 1.0
# Examples in a step (the paper tried 1), passes over a party's records, and the length of a step. Noisy examples need
# batches or short steps; with once = true, passes cost no privacy.
batch = 50
epochs = 20
learning_rate = 0.05
"""


_PROVEN_SECTION = """\
# alpha, the paper's parameter, follows from epsilon and delta: a record and its label, once perturbed, keep the wish.
# Or "l2".
noise = "gaussian"
once = true
labels = "randomised-response"
# A label's share of epsilon: it is kept with probability e^epsilon_y/(1 + e^epsilon_y). Features have the rest.
epsilon_y = 0.3
# Examples in a step, passes over a party's records, and the length of a step. Passes cost no privacy.
batch = 50
epochs = 20
learning_rate = 0.05
"""


def _statement(study: Study) -> tuple[Claim, ...]:
    chosen = input_noise.Parameters.model_validate(study.protocol)
    return input_noise_statement(
        K=study.K,
        d=study.d,
        law=chosen.noise,
        alpha=input_noise.alpha_of(study),
        copies=chosen.copies,
        epsilon_y=chosen.epsilon_y,
        eps=study.privacy.epsilon,
        delta=study.privacy.delta,
        fraction_bits=FRACTION_BITS,
        proven=study.proven,
    )


_LEAVES = """
Your records stay on your machine. {noise} A classifier is trained on the noisy copies here, before you join.
"""
_SUMMED = """
What leaves: your classifier times the number of your records, and that number, encrypted, and masked so that not even
{lead}, who holds the key, can read them alone.

What everybody sees: the number of all records together (of two parties, each so learns the other's), and the average of
the classifiers, which is the model.
"""
_ALONE = """
What leaves: your classifier, which is the model.
"""
_ONCE = "Noise is added to each of them once, {labels}."
_FRESH = "Noise is added to each of them anew whenever training looks at it, {epochs} times, {labels}."
_RANDOMISED = "and its label is turned round with a known probability"
_AS_THEY_ARE = "but its label is used as it is"

_COLLUSION = """
Nobody has to be trusted. The noise is on your records before anything is computed, so even all other parties and
Charlie together, who hold your classifier, learn no more of a record than its noisy copies tell.

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or foreign ends the run; a party
that lies about its records is not caught.
"""
_COST = """
The paper calls the result "privacy-secure" and names no epsilon. What is proved of each of your records{features} is
epsilon = {epsilon:.4g}, in every view; what it rests on stands in the privacy statement.{labels}

A second run over the same records costs the same again: the costs add up.
"""
_PROVEN_COST = """
Each of your records, its label included, loses at most epsilon = {epsilon:g} of its privacy, but for a probability of
delta = {delta:g}. That is proved, in every view: the noise follows from this wish, which is more noise than the paper
would ask for. {epsilon_y:g} of epsilon is the label's.

Noise on every single record is much. A model is usable only where records are very many, or epsilon is large.

A second run over the same records costs the same again: the costs add up.
"""


def _explain(study: Study) -> Explanation:
    chosen = input_noise.Parameters.model_validate(study.protocol)
    randomised = chosen.epsilon_y is not None
    noise = (_ONCE if chosen.once else _FRESH).format(
        labels=_RANDOMISED if randomised else _AS_THEY_ARE, epochs=chosen.epochs
    )
    words = {
        "noise": noise,
        "lead": study.lead,
        "epsilon": input_noise.cost(study)[0],
        "delta": study.privacy.delta,
        "epsilon_y": chosen.epsilon_y,
        "features": "" if randomised else "' features",
        "labels": "" if randomised else " Of their labels nothing is proved.",
    }
    cost = _PROVEN_COST if study.proven else _COST
    leaves = _LEAVES + (_SUMMED if study.K > 1 else _ALONE)
    return Explanation(*(paragraphs(text, words) for text in (leaves, _COLLUSION, cost)))


def _cost(study: Study) -> Cost:
    if study.K == 1:  # who is alone hands over a classifier, in the clear
        return Cost(sums=0, plaintexts=0, ciphertexts=0, round_trips=2, exponentiations=0.0)
    return price_of_sums(study, [input_noise.layout(study).count])


INPUT_NOISE = Protocol(
    name="input-noise",
    paper="Bixler",
    party=input_noise.party,
    charlie=input_noise.charlie,
    parameters=input_noise.Parameters,
    section=_SECTION,
    stages=("training", "keys", "sum"),
    check=input_noise.check,
    statement=_statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    calibrations=("paper", "proven"),
    proven_section=_PROVEN_SECTION,
    alone=True,
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
)
"""It is the only protocol of which one party is enough: the paper's setting."""
