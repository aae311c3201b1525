"""The public limits of parties' sizes: which of them contradict each other."""

from collections.abc import Iterator, Sequence

from masquerade_core.study.sections import Party, StudySection
from masquerade_core.words import counted

__all__ = ["size_problems"]


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
