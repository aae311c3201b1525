"""What secure sums cost, from public numbers alone."""

from collections.abc import Sequence

from masquerade_core.study import Study
from masquerade_protocols.entry import Cost

__all__ = ["price_of_sums"]

_CONTRIBUTION, _OPENING = 1 / 6, 1 / 2
"""Of a secure sum, for each plaintext: what a party's contribution and the lead's opening cost, in exponentiations."""

_SETTING_UP = 5  # round trips: the join, the lead's key, and the coin toss's commitments, echoes and reveals


def price_of_sums(study: Study, plaintexts: Sequence[int]) -> Cost:
    """Return the cost of a run that consists of secure sums; entry t of ``plaintexts`` is of sum t, at one party."""
    total = sum(plaintexts)
    return Cost(
        sums=len(plaintexts),
        plaintexts=total,
        ciphertexts=total * (study.K + 1),  # the parties' contributions, and Charlie's product
        round_trips=_SETTING_UP + 2 * len(plaintexts),  # a contribution and the opened sum; the lead's opening between
        exponentiations=total * (study.K * _CONTRIBUTION + _OPENING),
    )
