"""How a protocol's entry judges the noise, before a run and after it: what counts as small, and a ratio in words."""

import math

import numpy as np

from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model, answers_of, scores_of
from masquerade_core.privacy.expectation import PROMISES, Expectation, Verdict, counted_records
from masquerade_core.privacy.noise.output_perturbation import SMALL_NOISE, classifier_norm_bound
from masquerade_core.study import Study
from masquerade_protocols.entry import Noiseless, Released, Weights

__all__ = [
    "SMALL_NOISE",
    "expected_by_ratio",
    "judged_by_distance",
    "judged_by_scores",
    "least_noise_left",
    "longest_classifier",
    "model_of",
    "times",
    "two_digits",
]

_SHOWS = 0.5  # noise in scores beside the scores; from here on it begins to show in the error rate
_FEW = 0.05  # of the records get another answer than without noise
_DROWNED = 3.0  # noise three times as large as all that can be learned: a tenth of the variance is learned
_BEYOND = 1000


def times(ratio: float) -> str:
    """Return a ratio in words: "3 times", "1.4 times"."""
    return f"{ratio:.0f} times" if ratio >= 2 else f"{ratio:.1f} times"  # noqa: PLR2004


def two_digits(value: float) -> str:
    """Return a number with two significant digits."""
    return f"{float(f'{value:.2g}'):g}"


def model_of(weights: Weights) -> Model:
    """Return weights as a model without an offset."""
    return Model(tuple(weights.tolist()), None)


def judged_by_distance(clean: Weights, what: str, released: Released, epsilon: float, cure: str = "") -> Noiseless:
    """Judge by how far the released classifier is from the one without noise.

    Parameters
    ----------
    clean : ndarray
        The classifier without noise.
    what : str
        How it was computed, in a few words.
    released : Model or SavedModel
        Its weights count; a model that differs by its offset alone is as far as its weights are.
    epsilon : float
        The study's.
    cure : str
        What would make the noise small, other than a larger epsilon: the end of a sentence.
    """
    ratio = float(np.linalg.norm(np.array(released.weights) - clean) / np.linalg.norm(clean))
    if ratio <= SMALL_NOISE:
        return Noiseless(model_of(clean), what, ratio, epsilon)
    enough = epsilon * ratio / SMALL_NOISE
    moved = f"The noise moved the classifier by {times(ratio)} its length."
    remedy = f"An epsilon of about {two_digits(enough)} would do" + (f", or {cure}." if cure else ".")
    return Noiseless(model_of(clean), what, ratio, enough, f"{moved} {remedy}")


def expected_by_ratio(
    study: Study, ratio: float, *, noise: str, beside: str, cure: str, measured: str = ""
) -> Expectation:
    """Say what to expect where the noise has another law than noisy sums over all records.

    Parameters
    ----------
    study : Study
    ratio : float
        The least that the noise can be, beside the most that can be learned.
    noise, beside : str
        What was compared with what, in words: "the noise on the model", "the longest classifier that ... allows".
    cure : str
        What would make the ratio smaller: the end of a sentence that begins with "It takes".
    measured : str
        The noise and what it is on, as numbers: a sentence.
    """
    N, words = counted_records(study)
    if ratio >= _DROWNED:
        verdict, head = Verdict.NOTHING, "expect nothing: this setting cannot learn"
        size = times(ratio) if ratio < _BEYOND else f"more than {_BEYOND:,} times"
        told = f"is at least {size} as large as {beside}"
    elif ratio > SMALL_NOISE:
        verdict, head = Verdict.NOISY, "expect a model with much noise in it; look at the result"
        told = f"is at least {ratio:.0%} of {beside}"
    else:
        verdict, head = Verdict.UNSURE, PROMISES[Verdict.UNSURE]
        told = f"may be as little as {ratio:.1%} of {beside}"
    remedy = f" It takes {cure}." if verdict is not Verdict.UNSURE else ""
    also = f" {measured}" if measured else ""
    text = f"With {words}, {head}. {noise[0].upper()}{noise[1:]} {told}.{also}{remedy}"
    return Expectation(verdict, text, N, ratio=ratio)


def longest_classifier(study: Study, reach: float = math.inf) -> float:
    """Return the longest classifier that there can be: ``reach``, or less where a penalty on weights allows less."""
    Lambda = study.model.regularization
    return min(reach, classifier_norm_bound(Lambda)) if Lambda > 0 else reach


def least_noise_left(deviation: float, d: int, steps: int, eta: float, curvature: float, penalty: float) -> float:
    """Return the least length of what is left of the noise on every step of a descent, root mean square.

    A step of length eta adds noise, and every later step shrinks it by 1 - eta h along a direction of curvature h. The
    curvatures of a mean loss over records in the unit ball add up to ``curvature`` at most, the loss's own. What is
    left falls with h, and ever more slowly. So the sum over all d directions is least where they are all alike.

    Parameters
    ----------
    deviation : float
        The standard deviation of a coordinate of the noise on a mean gradient.
    d, steps : int
    eta : float
    curvature : float
        c of the loss.
    penalty : float
        Lambda, which adds to every h.
    """
    kept = (1 - eta * (curvature / d + penalty)) ** 2
    squares = steps if kept == 1 else (1 - kept**steps) / (1 - kept)
    return eta * deviation * math.sqrt(d * squares)


def judged_by_scores(
    clean: Model, what: str, released: Released, together: Dataset, epsilon: float, foreseen: Expectation
) -> Noiseless:
    """Judge by how far the noise moved the records' scores, and by how many answers it changed.

    Where no record points, noise does no harm.

    Parameters
    ----------
    clean : Model
        The classifier without noise.
    what : str
        How it was computed, in a few words.
    released : Model or SavedModel
    together : Dataset
        All records.
    epsilon : float
        The study's.
    foreseen : Expectation
        What was said before the run. Where it asked for more, the advice asks for the same.
    """
    scores = scores_of(clean, together.X, together.classes)
    moved = scores_of(released, together.X, together.classes) - scores
    ratio = float(np.linalg.norm(moved) / np.linalg.norm(scores))
    others = answers_of(released, together.X, together.classes) != answers_of(clean, together.X, together.classes)
    if ratio <= _SHOWS or np.mean(others) <= _FEW:
        return Noiseless(clean, what, ratio, epsilon)
    enough, records = foreseen.enough_epsilon, foreseen.enough_records
    if enough is None or records is None or enough <= epsilon:
        enough = epsilon * ratio / SMALL_NOISE
        records = math.ceil(ratio / SMALL_NOISE * len(together.y))
    advice = (
        f"The noise moved records' scores by {times(ratio)} their size. An epsilon of about {two_digits(enough)} would "
        f"do, or {records:,} records in place of {len(together.y):,}."
    )
    return Noiseless(clean, what, ratio, enough, advice)
