"""A study in plain words, where parties add noise to sums: what leaves, who must not work together, and what it costs.

Commands ask for it before a study is approved. A run needs none of it.
"""

from dataclasses import replace

from masquerade_core.evaluation import CELLS, MOST_BINS
from masquerade_core.privacy.statement import digits, gained
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.layouts import has_double_masks
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Explanation, paragraphs

__all__ = [
    "careful_of_delta",
    "collusion_of_sums",
    "explain_noisy_sums",
    "of_a_person",
    "what_leaves",
    "with_dropouts_explained",
    "with_evaluation_explained",
]


# --- Noisy sums -----------------------------------------------------------------------

_LEAVES = """
Your records stay on your machine.

What leaves, in {rounds}: the sum of your records' gradients, with your share of the noise added. A record's gradient
tells how that record would change a classifier that everybody knows.{cut} The sum is {hidden}. Before the first round,
the number of your records leaves, hidden in the same way.

What everybody sees: the number of all records together, and the noisy sum over all records, round by round. If there
are only two parties, each learns the other's number of records. The model follows from these sums, and so does the
classifier of every round.
"""
_COLLUSION = """
{promise}

{collusion}

Parties that side with Charlie subtract their own noise. {beyond}

Everybody is assumed to follow the protocol and to draw its share of the noise. A contribution that is {ends} or
from another run ends the run. Nobody notices a party that lies about its records or adds no noise.
"""
_COST = """
{gained} That holds for all rounds together. It is proved for the model, and for everything that is seen during the
run.{careful}{person}

A second run over the same records costs the same again: the costs add up.
"""


def explain_noisy_sums(study: Study, rounds: int, cut: str = "", leaves: str = _LEAVES) -> Explanation:
    """Return the study in plain words: T noisy sums of gradients that meet the privacy target.

    Parameters
    ----------
    study : Study
    rounds : int
        T.
    cut : str
        A sentence on what a party does to each gradient before it adds them up.
    leaves : str
        What leaves and who sees it, as paragraphs, in place of those on T sums of gradients; "{hidden}" says how.
    """
    privacy = study.privacy
    words = {
        "hidden": sum_words(study).hidden,
        "rounds": "one round" if rounds == 1 else f"each of {counted(rounds, 'round')}",
        "cut": f" {cut}" if cut else "",
        "gained": gained(privacy.epsilon, privacy.delta, about="one of your records"),
        "careful": careful_of_delta(study),
        "person": of_a_person(study),
    }
    return Explanation(paragraphs(leaves, words), collusion_of_sums(study, "the model"), paragraphs(_COST, words))


def collusion_of_sums(study: Study, released: str) -> tuple[str, ...]:
    """Return who must not work together, in a study whose sums carry noise in shares; ``released`` is what is seen."""
    t = study.privacy.colluders
    if t:
        parties = "one other party sides" if t == 1 else f"{t} other parties side"
        promise = f"The promise holds even if {parties} with Charlie."
        beyond = "If more do, less is promised; the privacy statement says how much."
    else:
        promise = f"What is promised holds against Charlie, and against all who see {released}."
        beyond = (
            "The noise is not sized for that. Every party knows its own noise, so less is promised against a party "
            "than against outsiders; the privacy statement says how much. Set colluders to 1 or more, and there will "
            "be more noise."
        )
    words = {"promise": promise, "beyond": beyond, "collusion": sum_words(study).collusion}
    words["ends"] = "dropped, doubled" if study.dropouts is None else "doubled"
    return paragraphs(_COLLUSION, words)


def careful_of_delta(study: Study) -> str:
    """Return a warning to append to what a study costs, or "" where delta is less than one in all records."""
    fewest = study.K * study.study.min_records
    if study.privacy.delta * fewest < 1:
        return ""
    return f" Such a delta is large: with {fewest:,} records it allows one of them to be published."


def of_a_person(study: Study) -> str:
    """Return a sentence on a person with several records, or "" where the study counts on one."""
    people = study.study.records_per_person
    if people == 1:
        return ""
    return (
        f" The study counts on persons with up to {people:,} records. More can be learned of all records of a person "
        "than of one; the privacy statement says how much."
    )


# --- An evaluation --------------------------------------------------------------------

_HELD_BACK = """
{share} % of your records, chosen by their place in the file, are held back: nothing is learned from them. {sums} Your
share of the noise is on every number, and {also} hide them like the sums before. Before the first round, the number
of your records held back leaves as well.
"""
_TWO_SUMS = """
Once the model is there, two more sums leave. The first counts in which of {cells} ranges of scores they lie. The second
counts how many of each label lie in each of {bins} ranges at most, and adds up the squares by which the model's
probabilities are off.
"""
_ONE_SUM = """
Once the model is there, one more sum leaves. It counts how many of each class get which answer.
"""
_MEASURING = """
Measuring the model costs nothing more. What is promised of a record, epsilon = {epsilon}, holds for the run as a whole.
A record that is held back shows in the counts alone; the model does not depend on it. Every other record shows in the
training alone. This holds because the side of a record follows from its place in the file. If you sort the file anew
between two runs, their costs add up, as those of any two runs do.
"""


def what_leaves(study: Study) -> str:
    """Return in words which sums are made of the records that measure a model."""
    if study.multiclass:
        return paragraphs(_ONE_SUM, {})[0]
    return paragraphs(_TWO_SUMS, {"cells": CELLS, "bins": MOST_BINS})[0]


def with_evaluation_explained(study: Study, said: Explanation) -> Explanation:
    """Return an explanation with that of the study's evaluation."""
    share = 0.0 if study.evaluation is None else study.evaluation.share
    words = {
        "share": f"{100 * share:.4g}",
        "epsilon": digits(study.privacy.epsilon),
        "sums": what_leaves(study),
        "also": sum_words(study).also_hidden,
    }
    leaves, cost = paragraphs(_HELD_BACK, words), paragraphs(_MEASURING, words)
    return replace(said, leaves=(*said.leaves, *leaves), cost=(*said.cost, *cost))


# --- Parties that may fall silent -----------------------------------------------------

_RETRIES = """
Parties may fall silent. The run goes on as long as {s} of the {K} parties remain. Charlie then asks those for new
contributions, with fresh noise, {times} in all at most. He could also claim that a party is silent when it is not. So
the noise is sized for that from the start: it is {price} larger than if the run needed everybody to the end.{forks}
"""
_DOUBLE_MASKS = """
Parties may fall silent. The run goes on as long as {s} of the {K} parties remain. Every contribution is under two
masks, and {k} other parties hold shares of both. Any {t} of them open one of the two: which one depends on whether the
contribution came. A party that falls silent before it has contributed to a sum is left out of it; a sum without noise,
such as that of the sizes, needs everybody. No sum is made again. The noise is sized for {s} parties from the start: it
is {price} larger than if the run needed everybody to the end.{ends}
"""
_ENDS = (
    " The run also ends if fewer than {t} of somebody's {k} still answer. That has a chance of less than one in a "
    "million if no more parties fall silent than may, no matter which."
)
_FORKS = (
    " With so few parties, a Charlie who breaks the rules can tell two groups of them that the others are gone. Then "
    "the groups end with two different models, and neither learns more than is said here."
)


def with_dropouts_explained(study: Study, said: Explanation, price: float) -> Explanation:
    """Return an explanation with that of the study's ``[dropouts]``; ``price`` is how much more noise they cost."""
    words: dict[str, object] = {"s": study.survivors, "K": study.K, "price": f"{100 * price:.0f} %"}
    if has_double_masks(study):
        from masquerade_protocols.blocks.double_masks import thresholds_of

        sizes = thresholds_of(study)
        words |= {"k": sizes.neighbours, "t": sizes.threshold}
        words["ends"] = _ENDS.format(**words) if sizes.neighbours + 1 < study.K else ""
        return replace(said, cost=(*said.cost, *paragraphs(_DOUBLE_MASKS, words)))
    words["times"] = "once" if study.retries == 1 else f"{study.retries} times"
    words["forks"] = _FORKS if 2 * study.survivors <= study.K + study.privacy.colluders else ""
    return replace(said, cost=(*said.cost, *paragraphs(_RETRIES, words)))
