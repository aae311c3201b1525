"""The cost of secure sums from public numbers alone, and the settings that go together where a run may lose parties.

A study with ``[dropouts]`` goes on without parties that fall silent, by sums that are made again
(:mod:`masquerade_protocols.blocks.masked_sum`) or by double masks (:mod:`masquerade_protocols.blocks.double_masks`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.layouts import has_double_masks
from masquerade_protocols.entry import Cost, Explanation, Protocol, late

__all__ = [
    "price_of_sums",
    "with_retries",
]


_CONTRIBUTION, _OPENING, _FOLDING = 1 / 6, 1 / 2, 1 / 50
"""Exponentiations for each plaintext: a party's contribution, the lead's opening, and a party's part of its check."""

_KEY, _PROOF = 2.5, 1.0
"""Exponentiations of each party once a run: to check the key's form, and the proof of all openings."""

_BLINDING = 1.0
"""The cost of Charlie's blind for each plaintext, in exponentiations: one full obfuscator."""

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
    total, once = sum(plaintexts), study.K * (_KEY + _PROOF * (not blinded)) * set_up
    each = study.K * _CONTRIBUTION + _OPENING + (_BLINDING if blinded else study.K * _FOLDING)
    products = 1 if blinded else 1 + study.K  # Charlie's product for the lead, and for everybody
    return Cost(
        sums=len(plaintexts),
        plaintexts=total,
        ciphertexts=total * (study.K + products),
        round_trips=_SETTING_UP * set_up + _A_SUM * len(plaintexts) + (set_up and not blinded),  # and the proof
        exponentiations=total * each + once,
    )


# --- Runs that may lose parties -----------------------------------------------------

_explained = late("masquerade_protocols.blocks.explanation", "with_dropouts_explained")


def with_retries(entry: Protocol, dearest: Callable[[Study], Fraction]) -> Protocol:
    """Return a protocol's entry that also takes a study with ``[dropouts]``; its roles must be able to make sums again.

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
        if has_double_masks(study):
            sized = f"a sum has {study.survivors} parties or more, and no sum is made again: honest parties see to both"
            return tuple(replace(row, assumptions=(*row.assumptions, sized)) for row in rows)
        sized = (
            f"a sum has {study.survivors} parties or more, and Charlie has {counted(study.retries, 'sum')} made again "
            "at most: every honest party sees to both"
        )
        return tuple(replace(row, assumptions=(*row.assumptions, sized)) for row in rows)

    def explain(study: Study) -> Explanation:
        said = entry.explain(study)
        if study.dropouts is None:
            return said
        with_words: Explanation = _explained(study, said, able.dropout_price(study))
        return with_words

    able = replace(entry, statement=statement, explain=explain, no_retries="", dearest=dearest)
    return able
