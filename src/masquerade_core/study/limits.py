"""The public limits of parties' sizes: which of them contradict each other, or leave nothing to measure with."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from masquerade_core.study.sections import EvaluationSection, Party, StudySection
from masquerade_core.words import counted

__all__ = ["as_fraction", "evaluation_problems", "size_problems"]


def as_fraction(x: float) -> Fraction:
    """Return exactly the decimal number that the study's file shows for ``x``: 0.1 is 1/10.

    So two machines that read the same study compute the same noise scale to the last bit.
    """
    return Fraction(repr(float(x)))


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
