"""What secure sums cost: it follows from public numbers alone."""

from collections.abc import Sequence
from math import ceil

from masquerade_core.study import Study
from masquerade_protocols.entry import Cost

__all__ = ["price_of_sums"]

_CONTRIBUTION, _OPENING = 1 / 6, 1 / 2
"""What a party's contribution and the lead's opening cost for each plaintext, in exponentiations."""

_BLINDING = 1.0
"""What Charlie's blind costs for each plaintext, in exponentiations: one full obfuscator."""

_SETTING_UP = 5
"""Round trips: the join, the lead's key, and the coin toss's commitments, echoes and reveals."""

_SETTING_UP_MASKS = 2
"""Round trips of masked sums: the join, and the key of the check values, which Charlie relays."""

_A_SUM = 2
"""Round trips: the contributions and what everybody is told; between them, the total and the lead's opening."""


def price_of_sums(study: Study, plaintexts: Sequence[int], *, blinded: bool = False, set_up: bool = True) -> Cost:
    """Return the cost of a run that consists of secure sums.

    Parameters
    ----------
    study : Study
    plaintexts : sequence of int
        For each sum, how many plaintexts a party's vector takes. Masked sums have none, and their number alone counts.
    blinded : bool
        Whether Charlie alone learns the sums, and so blinds them before the lead opens them.
    set_up : bool
        False for sums that are made in addition to those of a run whose price is known.
    """
    if study.crypto.sum == "masks":
        half = 0.5 if blinded else 1  # a sum for Charlie alone is told to nobody
        trips = _SETTING_UP_MASKS * set_up + ceil(half * len(plaintexts))
        return Cost(sums=len(plaintexts), plaintexts=0, ciphertexts=0, round_trips=trips, exponentiations=0.0)
    total = sum(plaintexts)
    each = study.K * _CONTRIBUTION + _OPENING + _BLINDING * blinded
    return Cost(
        sums=len(plaintexts),
        plaintexts=total,
        ciphertexts=total * (study.K + 1),  # the parties' contributions, and Charlie's product of them
        round_trips=_SETTING_UP * set_up + _A_SUM * len(plaintexts),
        exponentiations=total * each,
    )
