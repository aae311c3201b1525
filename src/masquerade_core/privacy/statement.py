"""The privacy statement of a run: for everybody who may look at it, what is claimed beside what is proved.

A statement is a list of rows, each a :class:`Claim`. A row speaks of one *view*, one unit and one definition. A view is
somebody who looks, with everything that this somebody sees: the public with the released model, Charlie (the server of
a study) with the ciphertexts, a party with its own records and its own noise. The unit says whose privacy the row is
about.

A row has an ``epsilon`` only where a guarantee is proved. Otherwise its ``provable`` is "none". A guarantee whose delta
is 1 or more allows everything, so its row says "none" too.

Each row names its *adversary*, who "follows the protocol" and is curious, or "breaks it". ``docs/privacy/statement.md``
names a test for each kind of row that says the second.

Unless a row says otherwise, it assumes the following. Neighbouring data sets differ in one replaced record. The numbers
of records n_j of all parties are fixed, since noise may be scaled to the smallest of them. Records lie in the unit ball
because of public bounds alone.

:class:`Rows` and :class:`SharedNoiseRows` write the rows of one statement, so that a protocol states only what differs.
The functions before them write numbers and sentences: bounds as digits, what an epsilon allows, and which delta is too
large.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from masquerade_core.privacy.numbers import require
from masquerade_core.words import counted

__all__ = [
    "ALL_FOLLOW",
    "BREAKS",
    "COMPUTATIONAL",
    "FOLLOWS",
    "NONE",
    "NOT_PROMISED",
    "NO_BOUND",
    "NO_SETTING",
    "ONE_RELEASE",
    "PUBLIC_SETTINGS",
    "REPLACE_RECORD",
    "Claim",
    "DrawnInShares",
    "Rows",
    "SharedNoiseRows",
    "digits",
    "gained",
    "honest_noise",
    "large_delta",
    "not_promised",
    "odds",
    "shown",
    "without_numbers",
]


# --- Statement words -------------------------------------------------------------

NOT_PROMISED = "not promised"

ALL_FOLLOW = (
    "everybody follows the protocol, except where a line says that somebody breaks it; honest parties draw their share "
    "of the noise"
)
"""An assumption of all rows of a statement in which a row's adversary breaks the protocol."""

_CERTAIN = 20.0  # an epsilon beyond which a percentage has more nines than anybody reads


def gained(epsilon: float, delta: float = 0.0, *, about: str = "one record") -> str:
    """Return what somebody gains at most who sees a release that keeps (epsilon, delta), as two sentences.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    about : str
        Whose data the guess is about.
    """
    factor = f"e^epsilon = {digits(math.exp(epsilon))}" if epsilon <= _CERTAIN else "e^epsilon"
    slack = f", up to a slack in probability of delta = {delta:g}" if delta > 0 else ""
    then = (
        f"A guess that was 50 % likely to be right is at most {odds(epsilon)} likely afterwards."
        if epsilon <= _CERTAIN
        else "So much allows a guess to become all but certain."
    )
    return (
        f"The odds of any guess about {about} change by at most a factor {factor}, as epsilon = {digits(epsilon)}"
        f"{slack}. {then}"
    )


def odds(epsilon: float) -> str:
    """Return how likely a guess is at most, in percent, after a release with this epsilon, if it was 50 % before.

    It is 1/(1 + exp(-epsilon)), with two significant digits of its distance from 50 % or from 100 %.

    Parameters
    ----------
    epsilon : float
        0 to some 30: beyond that, no float tells the result from 100 %.
    """
    sure, left = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    nearest = min(sure - 0.5, left)
    places = max(0, 1 - math.floor(math.log10(100 * nearest))) if nearest > 0 else 0
    return f"{100 * sure:.{places}f} %"


def honest_noise(parties: int) -> str:
    """Return "the noise of one honest party", "the noise of 3 honest parties": the part that an adversary misses."""
    return "the noise of one honest party" if parties == 1 else f"the noise of {parties} honest parties"


def large_delta(delta: float, units: int, unit: str = "record") -> str:
    """Return a warning to append to a row's text, or "" where delta is less than 1/``units``.

    A delta of 1/n or more allows a protocol to publish one of n records, so it promises little.

    Parameters
    ----------
    delta : float
        The delta of a guarantee.
    units : int
        The smallest number of records, or of parties, that the study allows.
    unit : str
        "record" or "party".
    """
    if delta * units < 1:
        return ""
    few = f"The study allows for as few as {units:,} records" if unit == "record" else f"There are {units:,} parties"
    own = "that record" if unit == "record" else "all records of that party"
    return (
        f" Note delta = {delta:g}: it is not less than 1/{units:,}. {few}. For each of them, a protocol could publish "
        f"{own} with this probability and still meet the target."
    )


def digits(value: float, rounded: Callable[[float], int] = math.ceil) -> str:
    """Return four significant digits of a bound, rounded up, so that it never looks smaller than it is.

    Parameters
    ----------
    value : float
        Shown as 0 where it is not greater than 0.
    rounded : callable
        ``math.floor`` for a number that must not look larger than it is.
    """
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    scaled = value / unit
    nearest = round(scaled)  # the error of the division must not turn 1 into 1.001
    return f"{(nearest if abs(scaled - nearest) < 1e-9 else rounded(scaled)) * unit:.4g}"  # noqa: PLR2004


def without_numbers(text: str) -> str:
    """Return a row's text without the sentences that name an epsilon or a delta, for a row that has none."""
    sentences = text.split(". ")
    return ". ".join(s for s in sentences if "epsilon = " not in s and "delta = " not in s).removesuffix(".") + "."


def shown(epsilon: float, delta: float) -> str:
    """Return "epsilon = 1.5, delta = 0.0001"."""
    return f"epsilon = {digits(epsilon)}, delta = {delta:g}"


def not_promised(found: tuple[float, float] | None) -> str:
    """Return what a study claims of a view that it does not count on: nothing, whatever ``found`` is proved."""
    return f"{NOT_PROMISED}; nothing is proved" if found is None else f"{NOT_PROMISED}; proved anyway: {shown(*found)}"


# --- Statement -------------------------------------------------------------------

NONE = "none"

FOLLOWS, BREAKS = "follows the protocol", "breaks it"
"""The adversaries of rows: one sends what the protocol says; the other sends something else, or leaves a part out."""

COMPUTATIONAL = "approximate, computational"
"""Approximate differential privacy against an adversary who cannot break the encryption."""

REPLACE_RECORD = "replace one record, all sizes fixed"
"""The relation between neighbouring data sets in most rows."""

PUBLIC_SETTINGS = (
    "records are encoded by public bounds and clipped (scaled down) to norm 1; nobody looked at them to choose the "
    "bounds or any other setting"
)
NO_BOUND = " Nothing is proved here: delta would reach 1, and a delta of 1 allows everything."
"""The sentence for a row whose delta would reach 1."""

ONE_RELEASE = "the model is released once; every further run over the same records adds its own epsilon"
"""Assumptions of most proofs."""


@dataclass(frozen=True)
class Claim:
    """One row of the privacy statement.

    Parameters
    ----------
    view : str
        Who looks.
    unit : str
        Whose privacy: that of a "record", of a "party" with all its records, or of an "auxiliary sample".
    neighbours : str
        Which two data sets must be hard to tell apart.
    definition : str
        "pure", "approximate", "probabilistic" or "none". It adds "computational" where the guarantee holds only against
        adversaries who cannot break the encryption or the masks that ``assumptions`` name.
    claimed : str
        The guarantee that the paper states, or that the study asks for.
    provable : str
        The guarantee that is proved: its numbers as text, or "none".
    epsilon, delta : float or None
        The proved guarantee as numbers; None where there is none.
    holds_at : str
        The setting with which the study's privacy target would hold in this view.
    source : str
        The paper and theorem, or the derivation in the documentation.
    assumptions : tuple of str
        Who must not collude, and what must be true of the data.
    text : str
        The row in plain words.
    adversary : str
        Against whom the guarantee holds: ``FOLLOWS`` or ``BREAKS``.
    """

    view: str
    unit: str
    neighbours: str
    definition: str
    claimed: str
    provable: str
    epsilon: float | None
    delta: float | None
    holds_at: str
    source: str
    assumptions: tuple[str, ...]
    text: str
    adversary: str

    def __post_init__(self) -> None:
        number = self.epsilon is not None
        require(number == (self.delta is not None), "a row of a statement has an epsilon and a delta, or neither")
        proved = math.isfinite(self.epsilon or 0.0) and 0 <= (self.delta or 0.0) < 1
        require(proved, "a row of a statement has a finite epsilon, and a delta from 0 to less than 1")
        require(self.adversary in {FOLLOWS, BREAKS}, "a row of a statement names its adversary")

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {**asdict(self), "assumptions": list(self.assumptions)}


NO_SETTING = "no setting: an adversary who knows all noise can remove all of it"
"""The text of a row that no setting of the study makes hold."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A writer of rows that fills in what the rows of one statement have in common.

    Parameters
    ----------
    source : str
        The paper and theorem, or the derivation in the documentation.
    assumptions : tuple of str
        The assumptions of every row that has a proof.
    unit, neighbours : str
        As in a :class:`Claim`.
    """

    source: str
    assumptions: tuple[str, ...] = ()
    unit: str = "record"
    neighbours: str = REPLACE_RECORD

    def proved(
        self,
        view: str,
        text: str,
        *more: str,
        claimed: str,
        provable: str,
        epsilon: float,
        delta: float,
        holds_at: str,
        definition: str = COMPUTATIONAL,
        unit: str = "",
        neighbours: str = "",
        source: str = "",
        adversary: str = FOLLOWS,
    ) -> Claim:
        """Return a row with a proof; a row without one where delta is 1 or more, or epsilon has no bound.

        Parameters
        ----------
        view, text : str
            As in a :class:`Claim`, like the parameters that are not listed here.
        *more : str
            Assumptions of this row alone, in addition to those of the statement.
        unit, neighbours, source : str
            Where they differ from the statement's.
        adversary : str
            ``FOLLOWS`` or ``BREAKS``.
        """
        if not (delta < 1 and math.isfinite(epsilon)):
            return self.none(
                view,
                without_numbers(text) + NO_BOUND,
                *self.assumptions,
                *more,
                claimed=claimed,
                holds_at=holds_at,
                unit=unit,
                neighbours=neighbours,
                source=source or self.source,
                adversary=adversary,
            )
        return Claim(
            view=view,
            unit=unit or self.unit,
            neighbours=neighbours or self.neighbours,
            definition=definition,
            claimed=claimed,
            provable=provable,
            epsilon=epsilon,
            delta=delta,
            holds_at=holds_at,
            source=source or self.source,
            assumptions=(*self.assumptions, *more),
            text=text,
            adversary=adversary,
        )

    def none(
        self,
        view: str,
        text: str,
        *more: str,
        claimed: str,
        holds_at: str,
        unit: str = "",
        neighbours: str = "",
        source: str = "by inspection",
        adversary: str = FOLLOWS,
    ) -> Claim:
        """Return a row for a view against which nothing is proved.

        Parameters
        ----------
        view, text : str
            As in a :class:`Claim`, like the parameters that are not listed here.
        *more : str
            All assumptions of this row; those of the statement belong to its proofs and are left out.
        unit, neighbours, source : str
            Where they differ from the statement's.
        adversary : str
            ``FOLLOWS`` or ``BREAKS``.
        """
        return Claim(
            view=view,
            unit=unit or self.unit,
            neighbours=neighbours or self.neighbours,
            definition=NONE,
            claimed=claimed,
            provable=NONE,
            epsilon=None,
            delta=None,
            holds_at=holds_at,
            source=source,
            assumptions=more,
            text=text,
            adversary=adversary,
        )


class DrawnInShares(Protocol):
    """Noise of which every party draws a share, and the privacy target that it is sized for: epsilon, delta and h."""

    @property
    def epsilon(self) -> float:
        """The target's epsilon."""

    @property
    def delta(self) -> float:
        """The target's delta."""

    @property
    def honest(self) -> int:
        """h, how many shares are enough to meet the target."""

    def proved(self, shares: int, size: int = 1) -> tuple[float, float] | None:
        """Return (epsilon, delta) against an adversary who does not know ``shares`` of the shares.

        None where nothing is proved. ``size`` is how many units, such as records, are replaced together.
        """


@dataclass(frozen=True, kw_only=True)
class SharedNoiseRows(Rows):
    """A writer of rows about noise of which each of K parties draws a share.

    Parameters
    ----------
    noise : DrawnInShares
    K : int
        How many parties there are.
    """

    noise: DrawnInShares
    K: int

    def row(
        self,
        view: str,
        unknown: int,
        text: str,
        *more: str,
        definition: str = COMPUTATIONAL,
        unit: str = "",
        neighbours: str = "",
        adversary: str = FOLLOWS,
    ) -> Claim:
        """Return the row of a view that does not know ``unknown`` of the K shares of noise.

        It has a proof where ``noise.proved(unknown)`` gives one.

        Parameters
        ----------
        view, text, definition : str
            As in a :class:`Claim`.
        unknown : int
            0 to K.
        *more : str
            Assumptions of this row alone, in addition to those of the statement.
        unit, neighbours : str
            Where they differ from the statement's.
        adversary : str
            ``FOLLOWS`` or ``BREAKS``.
        """
        noise, found = self.noise, self.noise.proved(unknown)
        if unknown >= noise.honest:
            colluding = counted(self.K - noise.honest, "colluding party", "colluding parties")
            target = f"epsilon = {digits(noise.epsilon)}, delta = {noise.delta:g}"
            claimed, holds_at = f"approximate, {target}: the privacy target, for {colluding}", "this noise"
        else:
            claimed = not_promised(found)
            holds_at = f"colluders = {self.K - unknown} in the study" if unknown else NO_SETTING
        common = {"claimed": claimed, "holds_at": holds_at, "adversary": adversary}
        common |= {"unit": unit, "neighbours": neighbours}
        if found is None:
            text = without_numbers(text) + NO_BOUND
            return self.none(view, text, *self.assumptions, *more, source=self.source, **common)
        epsilon, delta = found
        provable = shown(epsilon, delta)
        return self.proved(
            view, text, *more, provable=provable, epsilon=epsilon, delta=delta, definition=definition, **common
        )
