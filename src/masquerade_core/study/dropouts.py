"""``[dropouts]``: how a run goes on without parties that no longer answer, and which of its numbers contradict others.

A party that falls silent leaves a sum without its contribution. The study says by which ``method`` the run goes on:

``"retries"``
    Charlie asks the others for new contributions, with fresh noise, to a sum that is theirs alone: a *retry*. He may
    also claim that a party is silent which is not, and so get one more noisy sum. Therefore the noise is sized as if he
    used every retry that the study allows, and as if every sum had only ``min_survivors`` parties.
``"double-masks"``
    A contribution is under two masks. The others hold shares of both, and open one of the two: which one depends on
    whether the party's contribution came. No sum is made again, so the study has no ``retries``. The noise is sized as
    if every sum had only ``min_survivors`` parties.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from masquerade_core.study.columns import Section
from masquerade_core.study.sections import Crypto, Privacy, StudySection

__all__ = ["Dropouts", "dropout_problems"]

_FEWEST = 2


class Dropouts(Section):
    """``[dropouts]``: how many parties must remain, how often a sum may be made again, and how long Charlie waits."""

    min_survivors: int = Field(description="the fewest parties with which a run goes on; the noise is sized for these")
    method: Literal["retries", "double-masks"] = Field(
        default="retries",
        exclude_if=lambda method: method == "retries",  # so the hash of a study from before this field stays the same
        description='"retries" to make sums again, "double-masks" to remove the masks of those who fall silent',
    )
    retries: int | None = Field(
        default=None, ge=1, le=1000, description="how many sums a run may make again; the noise pays for all"
    )
    patience_seconds: float = Field(
        gt=0, allow_inf_nan=False, description="how long Charlie waits for a contribution before he goes on without it"
    )


def dropout_problems(section: Dropouts, rules: StudySection, privacy: Privacy, crypto: Crypto, K: int) -> Iterator[str]:
    """Yield what is wrong with a study's ``[dropouts]``, as sentences.

    Parameters
    ----------
    section : Dropouts
    rules, privacy, crypto : StudySection, Privacy, Crypto
        The sections with which it may not agree.
    K : int
        Parties.
    """
    yield from _method_problems(section)
    s, t = section.min_survivors, privacy.colluders
    if s < _FEWEST:
        yield (
            f"[dropouts] min_survivors is {s}, but must be at least {_FEWEST}: the sum of a single party hides nothing "
            "but what its own noise hides"
        )
    elif s > K:
        yield f"[dropouts] min_survivors is {s}, but must be at most {K}, the number of parties"
    elif s <= t:
        yield (
            f"[dropouts] min_survivors is {s}, but must be more than [privacy] colluders, which is {t}: at least one "
            "of those who remain must be honest"
        )
    elif section.method == "double-masks" and not _opens_one_set(K, t, s):
        yield (
            f"[dropouts] min_survivors is {s}, but must be at least {(K + t - 1) // 2 + 2} with method = "
            f'"double-masks", {K} parties and {t} colluders: with fewer, two sets of parties could be opened at once; '
            'raise min_survivors, lower colluders, or set method = "retries"'
        )
    patience, deadline, slot = section.patience_seconds, rules.deadline_seconds, rules.slot_seconds
    if patience > deadline / 2:
        yield (
            f"[dropouts] patience_seconds is {patience:g}, but must be at most half of [study] deadline_seconds, which "
            f"is {deadline:g}: after that others end the run"
        )
    if slot is not None and patience <= slot:
        yield (
            f"[dropouts] patience_seconds is {patience:g}, but must be more than [study] slot_seconds, which is "
            f"{slot:g}: no contribution leaves before its slot"
        )
    seen = f"retries = {section.retries}" if section.method == "retries" else f'method = "{section.method}"'
    if privacy.calibration == "paper":
        why = "and the same noise on two sums hides neither"
        if section.method == "double-masks":
            why = "and a sum without a party has less of it than the paper counts"
        yield (
            f'[dropouts] has {seen}, but [privacy] calibration is "paper", where noise is drawn once for a run, {why}; '
            'set calibration = "proven", or remove [dropouts]'
        )
    if crypto.sum != "masks":
        yield (
            f'[dropouts] has {seen}, but [crypto] sum is "{crypto.sum}", where the sum needs '
            'every party to the end; set sum = "masks", or remove [dropouts]'
        )


def _opens_one_set(K: int, t: int, s: int) -> bool:
    from masquerade_core.thresholds import thresholds

    return thresholds(K, t, K - s) is not None


def _method_problems(section: Dropouts) -> Iterator[str]:
    if section.method == "retries" and section.retries is None:
        yield (
            "[dropouts] retries is missing: it says how many sums may be made again; set retries = 1 or more, or "
            'method = "double-masks", which makes none again'
        )
    if section.method == "double-masks" and section.retries is not None:
        yield (
            f'[dropouts] has retries = {section.retries}, but method is "double-masks", which makes no sum again; '
            'remove retries, or set method = "retries"'
        )
