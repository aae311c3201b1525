"""Who is at fault when a sum by Paillier was refused, as far as the frames of the lead and of Charlie prove it."""

from collections.abc import Iterable, Mapping

from masquerade_core.crypto.paillier import PublicKey
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import decode
from masquerade_core.wire.faults import Findings
from masquerade_core.wire.frames import Frame
from masquerade_core.words import counted
from masquerade_protocols.blocks.layouts import CHECK_PRIMES, receipt
from masquerade_protocols.blocks.paillier_sum import (
    Contribution,
    Opened,
    RoundSum,
    RoundTotal,
    SumKey,
    digest_of,
)

__all__ = ["Contribution", "Opened", "blame_of_opening", "digest_of", "of_opening", "two_totals"]


def blame_of_opening(key: PublicKey, told: Opened, contributions: Mapping[str, Contribution]) -> str | None:
    """Say what the contributions of a round of a sum by Paillier prove.

    Parameters
    ----------
    key : PublicKey
    told : Opened
        What Charlie told, and signed.
    contributions : mapping of str to Contribution
        What he shows, each signed by its party, by the parties' names in roster order.

    Returns
    -------
    str or None
        ``CHARLIE`` if his total or its check value is not theirs, or his receipt is for others. None if all are right:
        then the lead opened another sum, which its proof would not fit, or a party's contribution was not well made.
    """
    count = max(1, len(told.total) // key.ciphertext_bytes)
    total = Ciphertexts.total({name: c.terms for name, c in contributions.items()}, key, count, CHARLIE)
    prime = CHECK_PRIMES.get(len(told.check), 0)
    checks = sum(int.from_bytes(c.check, "little") for c in contributions.values())
    honest = (
        total.digest() == told.total.digest()
        and prime
        and checks % prime == int.from_bytes(told.check, "little")
        and receipt(told.round, {name: digest_of(c) for name, c in contributions.items()}) == told.receipt
    )
    return None if honest else CHARLIE


def two_totals(frames: Iterable[Frame]) -> str:
    """Say so if Charlie sent the lead another total than he told, among frames that he signed."""
    shown = list(frames)
    totals = [decode(RoundTotal, frame.body, CHARLIE) for frame in shown if frame.type == "RoundTotal"]
    told = [decode(Opened, frame.body, CHARLIE) for frame in shown if frame.type == "Opened"]
    for a in totals:
        for b in told:
            if a.round == b.round and (a.total.digest(), a.receipt) != (b.total.digest(), b.receipt):
                return (
                    f"Charlie sent the lead a different total or receipt of round {a.round} from the one that he told "
                    "everybody"
                )
    return ""


def of_opening(
    study: Study, frames: Iterable[Frame], answers: Iterable[Frame], told: Opened, given: Mapping[str, Contribution]
) -> Findings | str | None:
    """Say what a round's frames prove: in whole sentences, or as :func:`blame_of_opening` says it.

    Parameters
    ----------
    study : Study
    frames : iterable of Frame
        What Charlie signed.
    answers : iterable of Frame
        The lead's opened sums, as the lead signed them.
    told : Opened
        What Charlie told in this round.
    given : mapping of str to Contribution
        The parties' contributions to it.
    """
    keys = [decode(SumKey, frame.body, CHARLIE) for frame in frames if frame.type == "SumKey"]
    if not keys:
        return Findings("", ("the parties' key is not there; every participant's evidence has it",))
    key = PublicKey.received(keys[-1].modulus, study.key_bits, CHARLIE)
    sums = [decode(RoundSum, frame.body, study.lead) for frame in answers]
    opened = [answer.sums for answer in sums if answer.round == told.round]
    if opened and told.sums not in opened:
        return Findings(
            CHARLIE, (f"Charlie told a different sum of round {told.round} from the one that {study.lead} opened",)
        )
    culprit = blame_of_opening(key, told, given)
    if culprit is None and not sums:
        said = (
            f"the total that Charlie told in round {told.round} is that of the {counted(len(given), 'contribution')}. "
            f"But only his own evidence could show that he told the sum which {study.lead} opened. He told another "
            f"one, or {study.lead} opened another one, or a party's contribution was not well made"
        )
        return Findings("", (said,), (*given, CHARLIE))
    return culprit
