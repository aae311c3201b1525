"""Figures for a demonstration alone: the error without privacy, without noise, and of each party by itself.

They are computed from everybody's records. A real run computes none of them. What a run would have released without
noise comes from the protocol's entry, so this module knows no protocol by name.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.datasets import Cohort, Records, shuffled
from masquerade.demo.plan import MOST_PROCESSES, classifiers
from masquerade.demo.tuned import tuned_answers
from masquerade.demo.worth import errs_less, same_answer, worth_it
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Covariates, Dataset, Encoder
from masquerade_core.model import answers_of, error_on, gives_one_answer
from masquerade_core.study import Study
from masquerade_protocols import Released, protocol_of

__all__ = ["Comparison", "compare", "encoded"]

_LOOKED_AT = 10  # of very many parties; a classifier for each of them would take longer than the run
WARNING = "demo only: computed from everybody's records, which a real run shows to nobody"


@dataclass(frozen=True)
class Comparison:
    """Errors on the public test set, and how the noise compares.

    Parameters
    ----------
    pooled : float
        Logistic regression on all records together, without privacy; cross-validation chose its penalty.
    best_single, median_single, worst_single : float
        The same on each party's own records; of more than 64 parties, on those of some.
    without_noise : float
        The classifier that a run without noise would have released.
    noiseless : str
        A few words that describe that classifier.
    majority : float
        A rule that always gives the more frequent answer.
    noise_ratio : float
        The noise beside the classifier, measured as the protocol's entry does: by lengths, or by records' scores.
    enough_epsilon : float or None
        An epsilon at which the noise would be small; None where no epsilon makes it small.
    advice : str
        A few sentences where the released model is not what it seems; else empty. The noise may drown the model, or
        the run may cost more privacy than the study's privacy target says.
    worth : str
        Whether joining was worth it, in a sentence; empty where no released model was given.
    useless : bool
        Whether the released model is no better than the more frequent answer.
    alike : float or None
        The same on as many of everybody's records as the largest party has, drawn at random: a party's error if all
        had records of one kind. None unless the parties differ on purpose.
    same_answer : str
        A few sentences where the released model gives nearly all test records the same answer; else empty.
    """

    pooled: float
    best_single: float
    median_single: float
    worst_single: float
    without_noise: float
    noiseless: str
    majority: float
    noise_ratio: float
    enough_epsilon: float | None
    advice: str
    worth: str = ""
    useless: bool = False
    same_answer: str = ""
    alike: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value, with a warning."""
        return {"warning": WARNING, **asdict(self)}


def compare(
    study: Study,
    cohort: Cohort,
    released: Released | None = None,
    auxiliary: Auxiliary | None = None,
    tell: Callable[[str], None] = lambda _words: None,
) -> Comparison:
    """Train the classifiers that a demonstration shows beside the released model.

    Parameters
    ----------
    study : Study
    cohort : Cohort
    released : Model or SavedModel, optional
        The released model. Only a protocol that judges its noise by itself does without.
    auxiliary : Auxiliary, optional
        The public records that the study names, where it names any.
    tell : callable
        Gets what is computed next, in a few words.
    """
    encoder = Encoder.from_study(study)
    data = {name: encoded(records, encoder, study) for name, records in cohort.parties.items()}
    test = encoded(cohort.test, encoder, study)
    some = list(data)[:: -(-len(data) // _LOOKED_AT)] if len(data) > MOST_PROCESSES else list(data)
    own = {name: _errs(data[name], test, name, tell) for name in some}
    singles = [float(np.mean(wrong)) for wrong in own.values()]
    labels, counts = np.unique(test.y, return_counts=True)
    majority = test.y != labels[counts.argmax()]
    # What no protocol made is learned from records in the unit ball; the protocol's own model may be for others.
    protocol = protocol_of(study)
    own_encoder = Encoder.from_study(study, protocol.records.coding)
    theirs, tests = data, test
    if own_encoder != encoder:
        theirs = {name: encoded(records, own_encoder, study) for name, records in cohort.parties.items()}
        tests = encoded(cohort.test, own_encoder, study)
    clean = protocol.noiseless(study, theirs, released, auxiliary=auxiliary, classifiers=classifiers(study))
    together, alike = pool(study, data), None
    pooled = float(np.mean(_errs(together, test, "all records in one place", tell)))
    if cohort.differ:
        rows = shuffled(len(together.y))[: max(len(part.y) for part in data.values())]
        sample = Dataset(together.X[rows], together.y[rows], together.classes)
        alike = float(np.mean(_errs(sample, test, "a party whose records are like everybody's", tell)))
    worth, same, useless = "", "", False
    if released is not None:
        said = answers_of(released, tests.X, tests.classes)
        worth = worth_it(said != test.y, own, majority)
        if len(own) < len(data):
            worth = f"Of the {len(data)} parties, {len(own)} were looked at. {worth}"
        useless = not errs_less(said != test.y, majority)
        if gives_one_answer(said, test.y):
            same = same_answer(said, learned=_in_words(study, said))
    return Comparison(
        pooled=pooled,
        best_single=min(singles),
        median_single=float(np.median(singles)),
        worst_single=max(singles),
        without_noise=error_on(clean.model, tests),
        noiseless=clean.what,
        majority=float(np.mean(majority)),
        noise_ratio=clean.noise_ratio,
        enough_epsilon=clean.enough_epsilon,
        advice=clean.advice,
        worth=worth,
        useless=useless,
        same_answer=same,
        alike=alike,
    )


def _errs(records: Dataset, test: Dataset, whose: str, tell: Callable[[str], None]) -> NDArray[np.bool_]:
    tell(f"learning without privacy, to compare: {whose}")
    return np.asarray(tuned_answers(records, test.X) != test.y)


def _in_words(study: Study, answers: NDArray[np.float64]) -> str:
    """Return the most frequent of the answers as the study names it."""
    values, counts = np.unique(answers, return_counts=True)
    most, label = values[counts.argmax()], study.label
    if label.classes is not None:
        return repr(label.classes[int(most)])
    return repr(label.positive) if most > 0 else f"not {label.positive!r}"


def encoded(records: Records, encoder: Encoder, study: Study) -> Dataset:
    """Return records with labels as a study has them encoded."""
    columns = dict(zip(records.columns, zip(*records.rows, strict=True), strict=True))
    labels, classes = np.array(columns[study.label.name]), study.label.classes
    if classes is None:
        kind = Covariates if encoder.coding == "treatment" else Dataset
        return kind(encoder.encode(columns), np.where(labels == study.label.positive, 1.0, -1.0))
    places = np.array([classes.index(label) for label in labels], dtype=np.float64)
    return Dataset(encoder.encode(columns), places, len(classes))
