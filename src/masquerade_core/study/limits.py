"""The public limits of rosters and of parties' sizes: which contradict each other, or leave nothing to measure with."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from masquerade_core.errors import BadInput
from masquerade_core.study.sections import Crypto, EvaluationSection, Party, StudySection
from masquerade_core.words import counted

__all__ = [
    "MOST_PARTIES",
    "as_fraction",
    "check_network",
    "crowd_problems",
    "evaluation_problems",
    "lead_problems",
    "size_problems",
]

MOST_PARTIES = 32_768
"""The most parties of a study. One message to all others has a box of 99 bytes for each, and 4 MB hold no more of them
than 42,000. The list of all names takes 1.1 MB of such a message."""

_NETWORK_KEY_BITS = (2048, 3072)
_MOST_PAIRED = 1024  # where every two parties have something to tell each other: half a million pairs


def as_fraction(x: float) -> Fraction:
    """Return exactly the decimal number that the study's file shows for ``x``: 0.1 is 1/10.

    So two machines that read the same study compute the same noise scale to the last bit.
    """
    return Fraction(repr(float(x)))


def crowd_problems(crypto: Crypto, K: int) -> Iterator[str]:
    """Yield what is wrong with a roster of so many parties, as sentences."""
    if crypto.sum != "masks" and K > _MOST_PAIRED:
        yield (
            f'the roster has {counted(K, "party", "parties")}, but with [crypto] sum = "{crypto.sum}" at most '
            f"{_MOST_PAIRED:,} are allowed, since every two of them exchange messages; remove parties, or choose a "
            'protocol that makes its sums with masks, and set sum = "masks"'
        )


def check_network(crypto: Crypto, K: int, min_parties: int) -> None:
    """Refuse, with BadInput, a study of K parties that must not run between processes."""
    if crypto.sum == "paillier" and crypto.key_bits not in _NETWORK_KEY_BITS:
        raise BadInput(
            f"[crypto] key_bits is {crypto.key_bits}, but between processes only 2048 and 3072 are allowed",
            "set key_bits = 2048; 'masquerade simulate' alone takes other lengths",
        )
    if min(K, min_parties) == 1:
        raise BadInput(
            f"the roster has {counted(K, 'party', 'parties')} and min_parties is {min_parties}, "
            "but a run between processes has at least two parties",
            "add parties and set min_parties = 2 or more, or run the study with 'masquerade simulate'",
        )


def lead_problems(lead: str | None, crypto: Crypto, names: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with a study's lead, as sentences; ``names`` are the parties.

    Whether there must be one depends on the protocol, whose registry asks for it.
    """
    if crypto.sum == "masks":
        if lead is not None:
            yield f'[study] lead is {lead!r}, but with [crypto] sum = "masks" no party leads; remove the line'
    elif lead is not None and lead not in names:
        yield f"[study] lead is {lead!r}, but must be one of the parties: {', '.join(names)}"


def size_problems(rules: StudySection, parties: Sequence[Party], countable: int) -> Iterator[str]:
    """Yield what is wrong with the numbers of records that a study allows, as sentences.

    Parameters
    ----------
    rules : StudySection
        ``min_records``, ``max_records`` and ``expected_records``.
    parties : sequence of Party
        Each may have a ``max_records`` of its own.
    countable : int
        The most records of a party that a run of so many parties can count.
    """
    fewest, K = rules.min_records, len(parties)
    if fewest > countable:
        yield (
            f"[study] min_records is {fewest}, but must be at most {countable}, the most records that a party may have "
            "in a study with this number of parties"
        )
    own = [(f"party {party.name!r} has", party.max_records) for party in parties]
    for owner, most in (("[study] has", rules.max_records), *own):
        if most is not None and not fewest <= most <= countable:
            yield (
                f"{owner} max_records = {most}, but it must be at least min_records, which is {fewest}, and at most "
                f"{countable}"
            )
    together = sum(party.max_records or rules.max_records or countable for party in parties)
    if rules.expected_records is not None and not K * fewest <= rules.expected_records <= together:
        yield (
            f"[study] expected_records is {rules.expected_records}, but {counted(K, 'party', 'parties')} with "
            f"min_records = {fewest} have {K * fewest} to {together} records together; correct expected_records "
            "or min_records"
        )


def evaluation_problems(section: EvaluationSection, min_records: int, *, multiclass: bool) -> Iterator[str]:
    """Yield what is wrong with a study's ``[evaluation]``, as sentences."""
    if as_fraction(section.share) * min_records < 1:
        yield (
            f"[evaluation] share is {section.share:g}, but of min_records = {min_records} that is less than one "
            "record; choose a larger share, or a larger min_records"
        )
    if multiclass and section.threshold is not None:
        yield "[evaluation] has a threshold, but the label has named classes, and no threshold tells them apart"
