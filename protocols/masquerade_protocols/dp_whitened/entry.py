"""``dp-whitened``, for those who choose it."""

from masquerade_core.study import Study
from masquerade_protocols.blocks.noisy_sums import explain_noisy_sums
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.dp_whitened import public, roles
from masquerade_protocols.dp_whitened.noiseless import noiseless
from masquerade_protocols.dp_whitened.statement import statement
from masquerade_protocols.entry import Cost, Explanation, Protocol

__all__ = ["DP_WHITENED"]


def _explain(study: Study) -> Explanation:
    return explain_noisy_sums(study, public.MOST_ROUNDS + 3)


def _cost(study: Study) -> Cost:
    """Price a run with the fewest records that there may be."""
    plan = public.Plan(study, study.K * study.study.min_records)
    return price_of_sums(study, [1, *plan.plaintexts()])


DP_WHITENED = Protocol(
    name="dp-whitened",
    paper="this program's own",
    party=roles.party,
    charlie=roles.charlie,
    parameters=public.Parameters,
    stages=("noise", "keys", "moments", "rounds"),
    check=public.check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    calibrations=("proven",),
    regularization_note="not used: the noise decides how simple the model is",
    learns_from_hundreds=True,
)
