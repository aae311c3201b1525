"""Who sees what of a run of ``vote`` or ``soft``, what Hamm, Cao and Belkin claim, and what is proved.

The unit of a row is one party with all its records. A party's data reach the model through its votes alone. Votes are
bounded, whatever the records are and however many there are. So what is proved of a party's data covers their number,
and each single record as well.

This module has the statement for ``calibration = "paper"``: Charlie puts noise on the classifier. The paper draws that
noise for its own bounds on how far votes move a classifier. They are right, and not sharp. The statement quotes what is
proved with sharper ones (:mod:`masquerade_core.privacy.noise.votes`).
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TypedDict

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.output_perturbation import provable_delta
from masquerade_core.privacy.noise.votes import sharp_sensitivity, votes_sensitivity
from masquerade_core.privacy.statement import Claim, Rows
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.voting.proven_statement import PARTY, RECORD, of_a_person, proven_statement
from masquerade_protocols.voting.public import FRACTION_BITS, beta, is_soft, parameters_of

__all__ = ["statement"]

_SAMPLE = "replace one auxiliary sample, and all records of one party"
_NO_COLLUSION = "nothing: the paper's trusted entity holds every local classifier"
_MODEL_ALONE = "an observer of the model sees neither the counts nor the noise"
_PAGE = "docs/privacy/voting.md, sharper than Hamm, Cao and Belkin 2016, "
_ASSUMPTIONS = (
    "everybody follows the protocol",
    "the auxiliary points, epsilon and regularization were chosen without looking at any party's records",
    f"the classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted, as is rounding",
    "the model is released once; every further run over the same records adds its own epsilon",
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the privacy statement of a study of ``vote`` or ``soft``, whatever its calibration."""
    return proven_statement(study) if study.proven else _paper_statement(study)


def _paper_statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement with ``calibration = "paper"``."""
    chosen, M = parameters_of(study), study.K
    soft, softmax = is_soft(study), study.multiclass
    Lambda = study.model.regularization
    theorem = (
        "equation (60)" if soft and softmax else "Theorem 3" if soft else "equation (53)" if softmax else "Theorem 1"
    )
    rows = Rows(
        source=_PAGE + "Theorems 1 and 3; for softmax, equations (53) and (60)",
        assumptions=_ASSUMPTIONS,
        unit="party",
        neighbours=PARTY,
    )
    proved, sharp = _proved(study), _sharp(study)
    reach = votes_sensitivity(soft=soft, softmax=softmax, Lambda=Lambda, M=M)
    t = max(1, study.privacy.colluders)
    left = M - t
    theirs = (
        "every vote of the one party that is left" if left == 1 else f"the exact votes of the other {left} together"
    )
    words = sum_words(study)
    without = " without private_auxiliary" if chosen.private_auxiliary else ""
    holds_at = f'calibration = "proven"{without} in the study, which puts noise on the counts'
    with_parties = f'calibration = "proven" and colluders = {t}{without} in the study, which puts noise on the counts'
    found = (
        rows.proved(
            "released model",
            "An observer of the model alone: one party's votes move the classifier by at most "
            f"{_shown(sharp)}, whatever its records are. The paper's noise is drawn for {_shown(reach)}.",
            _MODEL_ALONE,
            definition="approximate",
            claimed=_claimed(study, theorem),
            **proved,
        ),
        rows.proved(
            "released model",
            "A record is part of one party's data, so the guarantee for a party's data holds for it.",
            _MODEL_ALONE,
            definition="approximate",
            claimed=_claimed(study, theorem),
            unit="record",
            neighbours=RECORD,
            **proved,
        ),
        rows.none(
            "Charlie",
            "Charlie is the paper's trusted entity. At each of the "
            f"{chosen.auxiliary.records} auxiliary points he sees exactly how many of the {M} parties voted for each "
            "class, and he knows the noise. He does not see who voted for what.",
            claimed=_NO_COLLUSION,
            holds_at=holds_at,
        ),
        rows.proved(
            "one party",
            f"A party sees its own votes and the model, but neither the counts nor the noise. {words.counts}",
            words.counts_apart,
            claimed=_claimed(study, theorem),
            **proved,
        ),
        rows.none(
            f"Charlie with {counted(t, 'party', 'parties')}",
            f"They subtract their own votes from the counts. Then they know {theirs}.",
            claimed=_NO_COLLUSION,
            holds_at=with_parties,
        ),
    )
    person = of_a_person(study, found[1])
    if not chosen.private_auxiliary:
        return (*found, *person)
    sample = rows.proved(
        "released model",
        "Somebody who sees the model and takes no part in the run. The participants hold the file with the auxiliary "
        "samples, since they vote on them.",
        "the auxiliary samples are known to the participants only",
        definition="approximate",
        claimed=_claimed(study, "section 4.5"),
        unit="auxiliary sample",
        neighbours=_SAMPLE,
        source=_PAGE + "section 4.5",
        **_proved(study, chosen.auxiliary.records),
    )
    return (*found, *person, sample)


def _claimed(study: Study, theorem: str) -> str:
    return f"pure, epsilon = {study.privacy.epsilon:g} ({theorem})"


def _sharp(study: Study, samples: int | None = None) -> float:
    """Return how far one party's votes move the exact minimiser; with ``samples``, one of so many samples as well."""
    return sharp_sensitivity(
        soft=is_soft(study),
        loss=study.model.loss,
        classes=study.classes,
        Lambda=study.model.regularization,
        M=study.K,
        N=samples,
    )


class _Proved(TypedDict):
    """The result of :func:`_proved`, by the names of a row's parameters."""

    provable: str
    epsilon: float
    delta: float
    holds_at: str


def _proved(study: Study, samples: int | None = None) -> _Proved:
    """Return what the paper's noise proves: epsilon is beta times the distance of two neighbours' classifiers.

    Both classifiers are rounded to the grid, and each may miss its minimiser by the tolerance of the gradient.
    """
    dimensions, eps = study.outputs * study.d, study.privacy.epsilon
    inexact = math.sqrt(dimensions) * 2.0**-FRACTION_BITS + 2 * TOLERANCE / study.model.regularization
    epsilon = float(beta(study)) * (_sharp(study, samples) + inexact)
    delta = provable_delta(d=dimensions, epsilon=epsilon, noise="l2")
    return {
        "provable": f"epsilon = {_shown(epsilon)}, delta = {delta:.1e}",
        "epsilon": epsilon,
        "delta": delta,
        "holds_at": f"this noise with epsilon = {_shown(eps * eps / epsilon, ROUND_FLOOR)} in the study",
    }


def _shown(value: float, rounding: str = ROUND_CEILING) -> str:
    """Show six significant digits; a bound is rounded up, since it must not look smaller than it is."""
    return f"{float(Context(prec=6, rounding=rounding).create_decimal_from_float(value)):g}"
