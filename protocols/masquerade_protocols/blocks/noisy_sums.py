"""The statement of a run that opens T noisy sums, where each party draws a share of the noise.

``dp-gd`` is such a run, and so is ``psgd`` with ``calibration = "proven"``. A round opens q + x: q is the sum of all
records' gradients on the grid, x the sum of the parties' shares of noise. The point of each round follows from the
rounds before. T such rounds compose exactly (:mod:`masquerade_core.privacy.noise.gaussian_rounds`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.several_records import Bound, several_records
from masquerade_core.privacy.statement import (
    ALL_FOLLOW,
    BREAKS,
    Claim,
    SharedNoiseRows,
    honest_noise,
    large_delta,
)
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.evaluation import noise_of as evaluation_noise
from masquerade_protocols.blocks.masked_sum import whose_noise
from masquerade_protocols.blocks.sum_words import SumWords, sum_words

__all__ = [
    "Observed",
    "noisy_sums_statement",
    "noisy_views",
    "without_noise",
]

_ASSUMPTIONS = (
    ALL_FOLLOW,
    "records are encoded by public bounds; nothing, steps and clip included, was chosen by looking at them",
    "N, the number of all records, is published as it is; epsilon does not cover sizes",
    "the model is released once; every further run over the same records adds its own epsilon",
)
_SOURCE = "docs/privacy/dp-gd.md: exact composition of T Gaussian rounds; Balle and Wang 2018, Theorem 8"


@dataclass(frozen=True)
class Observed:
    """The views of a run that opens sums with noise in shares, and what each sees.

    Parameters
    ----------
    view : str
        Who sees what is released.
    released : str
        What is released, and what noise it carries.
    left : str
        What is left of a sum if all parties but one side with Charlie: one party's ...
    """

    view: str
    released: str
    left: str


def noisy_sums_statement(
    study: Study, noise: SharedNoise, *, public: str = "", source: str = _SOURCE
) -> tuple[Claim, ...]:
    """Return the statement of a run that opens noisy sums, by default T sums of gradients.

    Parameters
    ----------
    study : Study
    noise : SharedNoise
    public : str
        Which sums are public, as a sentence.
    source : str
        Where the proof is.
    """
    rounds = counted(noise.rounds, "noisy sum is", "noisy sums are")
    public = public or f"{rounds} public, and so is the classifier of every round."
    seen = Observed(
        view="released model and all iterates",
        released=f"{public} Each sum carries the noise of {whose_noise(study)}.",
        left="sums",
    )
    return noisy_views(study, noise, seen, source=source, assumptions=_ASSUMPTIONS)


def noisy_views(
    study: Study, noise: SharedNoise, seen: Observed, *, source: str, assumptions: tuple[str, ...]
) -> tuple[Claim, ...]:
    """Return the rows of all views of a run that opens sums with noise in shares.

    Parameters
    ----------
    study : Study
    noise : SharedNoise
    seen : Observed
    source, assumptions : str, tuple of str
        Of every row.
    """
    K, honest, words = study.survivors, noise.honest, sum_words(study)
    rows = SharedNoiseRows(noise=noise, K=K, source=source, assumptions=assumptions)
    t = max(1, K - honest)
    views = [
        rows.row(
            seen.view,
            K,
            seen.released + large_delta(noise.delta, study.K * study.study.min_records),
            "an observer of the release sees nothing that only the participants see",
            definition="approximate",
        ),
        rows.row(
            "Charlie",
            K,
            f"Charlie sees {words.charlie_sees}, and the sums that everybody sees.",
            words.charlie,
        ),
        rows.row(
            "one party",
            K - 1,
            f"A party knows its own records and its own noise and subtracts them; the others' noise stays. "
            f"{words.one_party}",
            words.party,
        ),
        _with_parties(rows, t, words)
        if t < K - 1
        else _with_all_but_one(rows, f"Charlie with {counted(t, 'party', 'parties')}", seen),
    ]
    if t < K - 1:
        views.append(_with_all_but_one(rows, "Charlie with all parties but one", seen))
    if honest > 1:
        views.append(
            rows.row(
                without_noise(K - honest),
                honest - 1,
                f"The privacy target needs {honest_noise(honest)}. A missing share weakens the proof like one more "
                "party on Charlie's side. A share that is too small counts by its variance. Nobody sees either from "
                "outside.",
                "the party that holds the record draws its own share",
                words.others,
                adversary=BREAKS,
            )
        )
    return (*views, *several_records(study, views[0], _of_several(study, noise)))


def _with_parties(rows: SharedNoiseRows, t: int, words: SumWords) -> Claim:
    """Return the row of Charlie with t parties, where two parties or more are left."""
    return rows.row(
        f"Charlie with {counted(t, 'party', 'parties')}",
        rows.K - t,
        f"They subtract their own noise; {honest_noise(rows.K - t)} stays. {words.together}",
        words.others,
    )


def _with_all_but_one(rows: SharedNoiseRows, view: str, seen: Observed) -> Claim:
    """Return the row of all but the party that holds the record. It rests on that party's noise, and on no masks."""
    return rows.row(
        view,
        1,
        f"They subtract their own noise. The rest is one party's {seen.left}, with that party's own noise.",
        "the party that holds the record is honest",
        definition="approximate",
    )


def without_noise(t: int) -> str:
    """Name the view of the parties that the study counts on Charlie's side, where one more adds no noise."""
    if t == 0:
        return "everybody, where one honest party adds no noise"
    return f"Charlie with {counted(t, 'party', 'parties')}, where one honest party adds no noise"


def _of_several(study: Study, noise: SharedNoise) -> Callable[[int], Bound]:
    """Return size -> what is proved of so many records of one person.

    A record is learned from or held back for the evaluation, never both. So the run hides a record as the weaker of the
    two noises does.
    """
    noises = [noise] if study.evaluation is None else [noise, evaluation_noise(study)]

    def bound(size: int) -> Bound:
        found = [each.proved(study.survivors, size) for each in noises]
        known = [pair for pair in found if pair is not None]
        if len(known) < len(found):
            return None
        return max(epsilon for epsilon, _ in known), max(delta for _, delta in known)

    return bound
