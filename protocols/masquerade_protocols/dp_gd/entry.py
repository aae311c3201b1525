"""The entry of ``dp-gd``: what commands know of it."""

from fractions import Fraction

from masquerade_core.data.records import fewest_to_learn_from
from masquerade_core.privacy.expectation import Expectation, expected_of_sums
from masquerade_core.study import Study
from masquerade_core.words import listed
from masquerade_protocols.blocks.descent import descent_lengths
from masquerade_protocols.blocks.evaluation import with_evaluation
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums, with_retries
from masquerade_protocols.dp_gd import roles, schedule
from masquerade_protocols.dp_gd.noiseless import noiseless
from masquerade_protocols.dp_gd.statement import statement
from masquerade_protocols.entry import Cost, Explanation, Protocol, WeightNoise, late

__all__ = ["DP_GD"]

_STRONG = 1e-3  # Lambda; on Adult, .001 costs a point and .01 nearly all, without any noise

_SECTION = """\
# What is "auto" follows from public numbers: the columns, the privacy target, expected_records, and the number of all
# records that a run finds. Nobody may choose a number by looking at the records.
# How many noisy sums of gradients are opened.
rounds = "auto"
# The clip: the longest gradient that a record may contribute, at most 1. Longer ones are cut to this length.
clip = "auto"
# The length of a step. With "auto" the steps also have momentum; with a number, such as 4.0, they are plain.
learning_rate = "auto"
"""


_in_words = late("masquerade_protocols.blocks.explanation", "explain_noisy_sums")


def _explain(study: Study) -> Explanation:
    clip = float(schedule.clip_of(study))
    cut = f"Each gradient is cut to a length of {clip:g}."
    said: Explanation = _in_words(study, schedule.rounds_of(study), cut)
    return said


def _expectation(study: Study) -> Expectation:
    """Doubt a study whose steps or penalty are too weak or too strong for records that lie off-centre."""
    Lambda, seen = study.model.regularization, []
    if Lambda > _STRONG:
        seen.append(f"regularization = {Lambda:g}, where at most {_STRONG:g} is sure to do")
    if not schedule.accelerates(study):
        seen.append("a number for learning_rate, and so no momentum")
    if not seen:
        return expected_of_sums(study)
    doubt = f"But the study has {listed(seen)}: it may learn nothing where columns lie off-centre in their bounds."
    return expected_of_sums(study, doubt)


def _cost(study: Study) -> Cost:
    """Return the cost of a run with the fewest records that the study allows."""
    noise = schedule.noise_of(study)
    slots = schedule.layout(study, noise, fewest_to_learn_from(study))
    return price_of_sums(study, [1] + noise.rounds * [slots.count])


_ENTRY = Protocol(
    name="dp-gd",
    sum_lengths=descent_lengths,
    meaning=2,
    streams=True,
    paper="this program's own",
    party=roles.party,
    charlie=roles.charlie,
    parameters=schedule.Parameters,
    section=_SECTION,
    stages=("keys", "rounds"),
    check=schedule.check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    spends=spends_gaussian,
    expectation=_expectation,
    weight_noise=lambda study, N: WeightNoise(schedule.weight_noise(study, N), at_most=True),
    calibrations=("proven",),
    sum="masks",
    regularization=1e-4,
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
    learns_from_hundreds=True,
)

DP_GD = with_retries(with_evaluation(_ENTRY), lambda study: Fraction(1, schedule.rounds_of(study)))
"""The protocol. A run may hold records back and measure its model with them."""
