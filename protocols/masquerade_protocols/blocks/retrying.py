"""What a protocol's entry says of runs that may lose parties: what it costs, and who may ask for what.

A study with ``[dropouts]`` goes on without parties that fall silent (:mod:`masquerade_protocols.blocks.survivors`).
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.entry import Explanation, Protocol, paragraphs

__all__ = ["with_retries"]

_COST = """
Parties may fall silent. The run goes on as long as {s} of the {K} parties remain. Charlie then asks those for new
contributions, with fresh noise, {times} in all at most. He could also claim that a party is silent when it is not. So
the noise is sized for that from the start: it is {price} larger than if the run needed everybody to the end.{forks}
"""
_FORKS = (
    " With so few parties, a Charlie who breaks the rules can tell two groups of them that the others are gone. Then "
    "the groups end with two different models, and neither learns more than is said here."
)


def with_retries(entry: Protocol, dearest: Callable[[Study], Fraction]) -> Protocol:
    """Return a protocol's entry that also takes a study with ``[dropouts]``; its roles must make sums again.

    Parameters
    ----------
    entry : Protocol
    dearest : callable
        (study) -> the part of mu^2 that the dearest sum takes of a run without retries.
    """

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(study)
        if study.dropouts is None:
            return rows
        sized = (
            f"a sum has {study.survivors} parties or more, and Charlie has {counted(study.retries, 'sum')} made again "
            "at most: every honest party sees to both"
        )
        return tuple(replace(row, assumptions=(*row.assumptions, sized)) for row in rows)

    def explain(study: Study) -> Explanation:
        said = entry.explain(study)
        if study.dropouts is None:
            return said
        words = {
            "s": study.survivors,
            "K": study.K,
            "times": "once" if study.retries == 1 else f"{study.retries} times",
            "price": f"{100 * able.dropout_price(study):.0f} %",
            "forks": _FORKS if 2 * study.survivors <= study.K + study.privacy.colluders else "",
        }
        return replace(said, cost=(*said.cost, *paragraphs(_COST, words)))

    able = replace(entry, statement=statement, explain=explain, no_retries="", dearest=dearest)
    return able
