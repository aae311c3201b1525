"""The entry of ``dp-gd``: what commands know of it."""

from masquerade_core.data.holdout import fewest_to_learn_from
from masquerade_core.privacy.expectation import expected_of_sums
from masquerade_core.study import Study
from masquerade_protocols.blocks.evaluating import with_evaluation
from masquerade_protocols.blocks.noisy_sums import explain_noisy_sums
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.dp_gd import roles, schedule
from masquerade_protocols.dp_gd.noiseless import noiseless
from masquerade_protocols.dp_gd.statement import statement
from masquerade_protocols.entry import Cost, Explanation, Protocol

__all__ = ["DP_GD"]

_SECTION = """\
# How many noisy sums of gradients are opened.
rounds = 20
# The clip: the longest gradient that a record may contribute. Longer ones are cut to this length.
clip = 0.5
# The length of a step.
learning_rate = 4.0
"""


def _explain(study: Study) -> Explanation:
    chosen = schedule.parameters_of(study)
    return explain_noisy_sums(study, chosen.rounds, f"Each gradient is cut to a length of {chosen.clip:g}.")


def _cost(study: Study) -> Cost:
    """Return the cost of a run with the fewest records that the study allows."""
    noise = schedule.noise_of(study)
    slots = schedule.layout(study, noise, fewest_to_learn_from(study))
    return price_of_sums(study, [1] + noise.rounds * [slots.count])


_ENTRY = Protocol(
    name="dp-gd",
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
    expectation=expected_of_sums,
    calibrations=("proven",),
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
    learns_from_hundreds=True,
)

DP_GD = with_evaluation(_ENTRY)
"""The protocol. A run may hold records back and measure its model with them."""
