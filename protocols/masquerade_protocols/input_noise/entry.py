"""Input noise for those who choose it: its parameters, an explanation in plain words, its cost and its entry."""

from masquerade_core.privacy.accounting import target
from masquerade_core.privacy.statement import gained
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.explanation import of_a_person
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.input_noise.noiseless import expectation, noiseless
from masquerade_protocols.input_noise.public import Parameters, check, cost, layout, parameters_of
from masquerade_protocols.input_noise.roles import charlie, party
from masquerade_protocols.input_noise.statement import statement

__all__ = ["INPUT_NOISE"]

_SECTION = """\
# The noise on every record has the scale 1/alpha: the smaller alpha, the more privacy, and the more noise.
alpha = 1.0
# The distribution of the noise: "gaussian"; or "l2", with the density exp(-(alpha/2) |noise|).
noise = "gaussian"
# true: noise is added to each record once, and the noisy copy is kept. false, the paper's own way: a record gets new
# noise whenever it is used, and every time costs again.
once = true
# "randomised-response" reverses some labels at random. The paper's own way, "as they are", leaves labels without any
# protection, and has no epsilon_y.
labels = "randomised-response"
# A label is kept with probability e^epsilon_y/(1 + e^epsilon_y), and reversed otherwise.
epsilon_y = 1.0
# Examples in a step (the paper tried 1), passes over a party's records, and the length of a step. Noisy examples need
# batches or short steps. With once = true, more passes cost no privacy.
batch = 50
epochs = 20
learning_rate = 0.05
"""


_PROVEN_SECTION = """\
# The paper's parameter alpha is not set: it follows from epsilon and delta.
# The distribution of the noise: "gaussian"; or "l2", with the density exp(-(alpha/2) |noise|).
noise = "gaussian"
# Noise is added to each record once, and the noisy copy is kept.
once = true
# Some labels are reversed at random.
labels = "randomised-response"
# What a label alone costs, less than epsilon. It is kept with probability e^epsilon_y/(1 + e^epsilon_y), and reversed
# otherwise. The smaller epsilon_y, the more labels are reversed, and the more of epsilon is left for the features.
epsilon_y = 0.3
# Examples in a step, passes over a party's records, and the length of a step. More passes cost no privacy.
batch = 50
epochs = 20
learning_rate = 0.05
"""


_LEAVES = """
Your records stay on your machine. {noise} It trains a classifier on these noisy copies here, before you join.
"""
_SUMMED = """
What leaves: the number of your records, and your classifier times that number. Both are {hidden}.

What everybody sees: the number of all records together (of two parties, each thus learns the other's), and the average
of all classifiers by their numbers of records, which is the model.
"""
_ALONE = """
What leaves: your classifier, which is the model.
"""
_ONCE = "Your program adds noise to each record once, {labels}."
_FRESH = "Your program adds new noise to a record whenever training uses it, which is {epochs}, {labels}."
_RANDOMISED = "and reverses its label with a certain probability"
_AS_THEY_ARE = "but uses its label as it is"

_COLLUSION = """
Your records' privacy rests on nobody else. The noise is on your records before anything is computed. All other parties
and Charlie together can get your classifier. Even they learn no more of a record than its noisy copies tell.

The model is right only if everybody follows the protocol. A contribution that is dropped, doubled or from another run
ends the run. Nobody notices a party that lies about its records.
"""
_COST = """
The paper calls the result "privacy-secure" and names no epsilon. {proved} The privacy statement names the
assumptions.{labels}{person}

A second run over the same records costs the same again: the costs add up.
"""
_PROVEN_COST = """
{gained} That is proved against every observer, and includes the record's label: the noise is sized for these two
numbers. The label alone costs epsilon = {epsilon_y:g}. The noise on the features is sized such that both together cost
no more than the target.{person}

Noise on every single record adds up to a lot. The model is useful only if there are very many records, or epsilon is
large.

A second run over the same records costs the same again: the costs add up.
"""


def _explain(study: Study) -> Explanation:
    chosen = parameters_of(study)
    randomised = chosen.epsilon_y is not None
    noise = (_ONCE if chosen.once else _FRESH).format(
        labels=_RANDOMISED if randomised else _AS_THEY_ARE, epochs=counted(chosen.epochs, "time")
    )
    epsilon, delta = cost(study)
    features, gain = "" if randomised else "' features", gained(epsilon, delta, about="one of your records")
    words = {
        "noise": noise,
        "hidden": sum_words(study).hidden_all,
        "proved": f"What is proved is epsilon = {epsilon:.4g} for each of your records{features}, whoever looks. {gain}"
        if delta < 1
        else "With so little noise nothing is proved.",
        "gained": gain,
        "person": of_a_person(study),
        "epsilon_y": chosen.epsilon_y,
        "labels": "" if randomised else " About their labels nothing is proved.",
    }
    price = _PROVEN_COST if study.proven else _COST
    leaves = _LEAVES + (_SUMMED if study.K > 1 else _ALONE)
    return Explanation(*(paragraphs(text, words) for text in (leaves, _COLLUSION, price)))


def _cost(study: Study) -> Cost:
    if study.K == 1:  # who is alone hands over a classifier, in the clear
        return Cost(sums=0, plaintexts=0, ciphertexts=0, round_trips=2, exponentiations=0.0)
    return price_of_sums(study, [layout(study).count])


INPUT_NOISE = Protocol(
    name="input-noise",
    sum_lengths=lambda study: {study.d + 1},
    meaning=2,
    paper="Bixler",
    party=party,
    charlie=charlie,
    parameters=Parameters,
    section=_SECTION,
    stages=("training", "keys", "sum"),
    check=check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    expectation=expectation,
    cost=_cost,
    spends=lambda study: target(*cost(study), gaussian=False),
    calibrations=("paper", "proven"),
    noise_in_shares=False,
    proven_section=_PROVEN_SECTION,
    alone=True,
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
)
"""The only protocol that one party can run alone, as in the paper."""
