"""The privacy statement of a run: for everybody who may look at it, what is claimed beside what is proved.

A statement is a list of rows, each a :class:`Claim`. A row speaks of one *view*, one unit and one definition. A view is
somebody who looks, with everything that this somebody sees: the public with the released model, Charlie (the server of
a study) with the ciphertexts, a party with its own records and its own noise. The unit says whose privacy the row is
about.

A row has an ``epsilon`` only where a guarantee is proved. Otherwise its ``provable`` is "none", or "not assessed" where
nobody has examined the question.

Unless a row says otherwise, it assumes the following. Neighbouring data sets differ in one replaced record. The numbers
of records n_j of all parties are fixed, since noise may be scaled to the smallest of them. Records lie in the unit ball
because of public bounds alone.

:class:`Rows` and :class:`SharedNoiseRows` write the rows of one statement, so that a protocol states only what differs.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from masquerade_core.words import counted

__all__ = [
    "COMPUTATIONAL",
    "NONE",
    "NOT_ASSESSED",
    "ONE_RELEASE",
    "PARTY_UNIT",
    "PUBLIC_SETTINGS",
    "REPLACE_RECORD",
    "Claim",
    "DrawnInShares",
    "Rows",
    "SharedNoiseRows",
    "digits",
    "honest_noise",
    "large_delta",
]

NONE = "none"
NOT_ASSESSED = "not assessed"

COMPUTATIONAL = "approximate, computational"
"""Approximate differential privacy against an adversary who cannot break the encryption."""

REPLACE_RECORD = "replace one record, all sizes fixed"
"""The relation between neighbouring data sets in most rows."""

PUBLIC_SETTINGS = (
    "records are encoded by public bounds and clipped (scaled down) to norm 1; nobody looked at them to choose the "
    "bounds or any other setting"
)
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
        adversaries whose computing power is bounded.
    claimed : str
        The guarantee that the paper states, or that the study asks for.
    provable : str
        The guarantee that is proved: its numbers as text, "none" or "not assessed".
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

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {**asdict(self), "assumptions": list(self.assumptions)}


PARTY_UNIT = Claim(
    view="released model",
    unit="party",
    neighbours="replace all records of one party, all sizes fixed",
    definition=NONE,
    claimed="nothing",
    provable=NOT_ASSESSED,
    epsilon=None,
    delta=None,
    holds_at=NOT_ASSESSED,
    source=NOT_ASSESSED,
    assumptions=(),
    text="The noise is sized for one record. Nobody has examined how well it hides all of a party's data together.",
)
"""The last row of a statement whose noise is sized for one record."""


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
    ) -> Claim:
        """Return a row with a proof.

        Parameters
        ----------
        view, text : str
            As in a :class:`Claim`, like the parameters that are not listed here.
        *more : str
            Assumptions of this row alone, in addition to those of the statement.
        unit, neighbours, source : str
            Where they differ from the statement's.
        """
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

    def proved(self, shares: int) -> tuple[float, float] | None:
        """Return (epsilon, delta) against an adversary who does not know ``shares`` of the shares.

        None where nothing is proved.
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
        """
        noise = self.noise
        enough, found = unknown >= noise.honest, noise.proved(unknown)
        colluding = counted(self.K - noise.honest, "colluding party", "colluding parties")
        target = f"epsilon = {digits(noise.epsilon)}, delta = {noise.delta:g}: the privacy target, for {colluding}"
        common = {
            "claimed": f"approximate, {target}"
            if enough
            else "nothing: these parties are more than the study's colluders",
            "holds_at": "this noise" if enough else f"colluders = {self.K - unknown} in the study",
            "unit": unit,
            "neighbours": neighbours,
        }
        if found is None:
            return self.none(view, text, *self.assumptions, *more, source=self.source, **common)
        epsilon, delta = found
        provable = f"epsilon = {digits(epsilon)}, delta = {delta:g}"
        return self.proved(
            view, text, *more, provable=provable, epsilon=epsilon, delta=delta, definition=definition, **common
        )


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
        f" Mind delta = {delta:g}: it is not less than 1/{units:,}. {few}. For each of them, a protocol could publish "
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
