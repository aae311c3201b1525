"""Who sees what of a run of ``vote`` or ``soft`` with ``calibration = "proven"``, and what is proved of it.

Every party puts its share of noise on the counts of votes. So the study's privacy target holds in every view that does
not know the shares of h parties, Charlie's included; ``docs/privacy/voting.md`` derives it.
"""

import math

from masquerade_core.privacy.noise.vote_counts import COUNT_BITS, counters_at_a_point
from masquerade_core.privacy.noise.votes import sharp_sensitivity
from masquerade_core.privacy.several_records import several_records
from masquerade_core.privacy.statement import (
    ALL_FOLLOW,
    BREAKS,
    COMPUTATIONAL,
    Claim,
    SharedNoiseRows,
    digits,
    honest_noise,
    large_delta,
)
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.noisy_sums import without_noise
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.voting.public import classes_of, is_soft, noise_of, parameters_of

__all__ = ["PARTY", "RECORD", "of_a_person", "proven_statement"]

PARTY = "replace all records of one party, their number included"
"""The neighbours of a row about one party."""

RECORD = "replace one record, or add or remove it"
"""The neighbours of a row about one record."""

_ASSUMPTIONS = (
    ALL_FOLLOW,
    "the auxiliary points, epsilon and regularization were chosen without looking at any party's records",
    "the auxiliary points themselves, and who takes part, are not covered by epsilon",
    "the model is released once; every further run over the same records adds its own epsilon",
)

_MODEL_ALONE = "an observer of the model sees neither the counts nor anybody's votes"


def proven_statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement for ``vote`` or ``soft`` with ``calibration = "proven"``."""
    noise, M, words = noise_of(study), study.K, sum_words(study)
    h = study.honest
    rows = SharedNoiseRows(
        source="docs/privacy/voting.md: one Gaussian release of the counts; Balle and Wang 2018, Theorem 8",
        assumptions=_ASSUMPTIONS,
        unit="party",
        neighbours=PARTY,
        noise=noise,
        K=M,
    )
    t = max(1, M - h)
    views = [
        rows.row("released model", M, _about_the_model(study), _MODEL_ALONE, definition="approximate"),
        rows.row(
            "released model",
            M,
            "A record is part of one party's data, so the guarantee for a party's data holds for it.",
            _MODEL_ALONE,
            definition="approximate",
            unit="record",
            neighbours=RECORD,
        ),
        rows.row(
            "Charlie",
            M,
            "Charlie sees the noisy counts, and labels the auxiliary points by them. He draws no noise himself.",
            words.charlie,
        ),
        rows.row(
            "one party",
            M - 1,
            f"A party knows its own votes and noise, and sees the model. {words.counts}",
            words.counts_apart,
        ),
        rows.row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            M - t,
            f"They subtract their own votes and noise from the counts; {honest_noise(M - t)} stays. {words.together}"
            if t < M - 1
            else "They subtract their own votes and noise from the counts. The rest is one party's votes with that "
            "party's own noise.",
            words.others if t < M - 1 else "the party whose records are meant is honest",
            definition=COMPUTATIONAL if t < M - 1 else "approximate",
        ),
    ]
    if t < M - 1:
        views.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "The rest is one party's votes with that party's own noise.",
                "the party whose records are meant is honest",
                definition="approximate",
            )
        )
    if h > 1:
        views.append(
            rows.row(
                without_noise(M - h),
                h - 1,
                f"The privacy target needs {honest_noise(h)}. A missing share of noise costs as much as one more party "
                "on Charlie's side. A share that is too small counts with its variance. Nobody can see from outside "
                "that noise is missing.",
                "the party whose records are meant draws its own share",
                words.others,
                adversary=BREAKS,
            )
        )
    return (*views, *of_a_person(study, views[1]))


def of_a_person(study: Study, record: Claim) -> tuple[Claim, ...]:
    """Return the row about a person with several records, where the study counts on any.

    If all of them are with one party, the row about that party covers them. They may be with several, and then as many
    parties' votes may change.

    Parameters
    ----------
    study : Study
    record : Claim
        The row about one record.
    """
    people = study.study.records_per_person
    if people == 1:
        return ()
    gaussian = (lambda size: noise_of(study).proved(study.K, size)) if study.proven else None
    person, _ = several_records(study, record, gaussian)
    return (person,)


def _about_the_model(study: Study) -> str:
    """Say how far a party moves the counts, how much noise they have, and what noise on the classifier would take."""
    M, N, dimensions = study.K, parameters_of(study).auxiliary.records, study.outputs * study.d
    deviation = math.sqrt(M) * float(noise_of(study).share) / (1 << COUNT_BITS)
    moved = "sqrt(N)" if counters_at_a_point(classes_of(study)) == 1 else "sqrt(2 N)"
    reach = sharp_sensitivity(
        soft=is_soft(study),
        loss=study.model.loss,
        classes=study.classes,
        Lambda=study.model.regularization,
        M=M,
    )
    return (
        f"The classifier is made of noisy counts alone. One party moves the N = {N:,} counts by at most {moved} votes "
        f"in L2 norm. Each count, of M = {M:,} votes, carries noise of standard deviation {deviation:.4g}, everybody's "
        "share included. Noise on the classifier instead would have to cover a distance of "
        f"{digits(reach)} with a mean length of {digits(dimensions * reach / study.privacy.epsilon)}; it would keep "
        "epsilon without a delta, and Charlie would see the exact counts."
        + large_delta(study.privacy.delta, M, "party")
    )
