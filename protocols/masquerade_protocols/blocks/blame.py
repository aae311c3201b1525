"""Who is at fault when the check of a sum has failed, as far as signed messages prove it."""

from collections.abc import Mapping

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import PublicKey
from masquerade_core.study import CHARLIE
from masquerade_core.wire.messages import Ciphertexts
from masquerade_protocols.blocks.opening_proof import check_words
from masquerade_protocols.blocks.sum_messages import Contribution, Opened, digest_of, receipt

__all__ = ["blame_of_opening"]


def blame_of_opening(
    key: PublicKey, layout: Packing, told: Opened, contributions: Mapping[str, Contribution]
) -> str | None:
    """Say what the signed contributions of a round prove, once its check has failed.

    Charlie shows the contributions, each signed by its party. They are masked and encrypted.

    Parameters
    ----------
    key : PublicKey
    layout : Packing
        The round's.
    told : Opened
        What Charlie told, and signed.
    contributions : mapping of str to Contribution
        What he shows, by the parties' names in roster order.

    Returns
    -------
    str or None
        ``CHARLIE`` if his total or its check value is not theirs, or his receipt is for others. None if all are right:
        then the lead opened another sum, which its proof would not fit, or a party's contribution was not well made.
    """
    words = check_words(layout)
    total = Ciphertexts.total({name: c.terms for name, c in contributions.items()}, key, layout.count, CHARLIE)
    honest = (
        total.digest() == told.total.digest()
        and words.add_checks(c.check for c in contributions.values()) == told.check
        and receipt(told.round, {name: digest_of(c) for name, c in contributions.items()}) == told.receipt
    )
    return None if honest else CHARLIE
