"""``toy-means``, for those who choose it."""

from masquerade_core.privacy.expectation import expected_of_sums
from masquerade_core.privacy.statement import gained
from masquerade_core.study import Study
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.entry import Cost, Explanation, Protocol
from tests.toy_means import roles
from tests.toy_means.noiseless import noiseless
from tests.toy_means.statement import statement

__all__ = ["TOY_MEANS"]


def _explain(study: Study) -> Explanation:
    privacy = study.privacy
    return Explanation(
        leaves=("What leaves: the sum of your records with your share of the noise, encrypted and masked.",),
        collusion=("Parties that side with Charlie take their own noise off.",),
        cost=(gained(privacy.epsilon, privacy.delta, about="one of your records"),),
    )


def _cost(study: Study) -> Cost:
    slots = roles.layout(study, roles.noise_of(study), study.K * study.study.min_records)
    return price_of_sums(study, [1, slots.count])


TOY_MEANS = Protocol(
    name="toy-means",
    paper="none: an example",
    party=roles.party,
    charlie=roles.charlie,
    parameters=roles.Parameters,
    section="# There is nothing to choose.\n",
    stages=("noise", "keys", "sum"),
    check=roles.check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    expectation=expected_of_sums,
    calibrations=("proven",),
    learns_from_hundreds=True,
)
