"""The privacy statement of a run: for everybody who may look, what is claimed beside what is proved.

A *view* is somebody who looks, with all that this somebody sees: the public with the released model, Charlie with his
ciphertexts, a party with its own records and noise. Each row speaks of one view, one unit (whose privacy) and one
definition. A row has an ``epsilon`` only where something is proved. Otherwise its ``provable`` is "none", or "not
assessed" where nobody has worked it out.

Unless a row says otherwise, neighbouring data sets differ in one record, replaced, and all sizes n_j are fixed, since
noise may be scaled to the smallest size. Records lie in the unit ball by public bounds alone.
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
"""Approximate differential privacy against whoever cannot break the encryption."""

REPLACE_RECORD = "replace one record, all sizes fixed"
"""The neighbours of most rows."""

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
        "pure", "approximate", "probabilistic" or "none"; with "computational" where an adversary's means are bounded.
    claimed : str
        What the paper says.
    provable : str
        What is proved: the numbers as text, "none" or "not assessed".
    epsilon, delta : float or None
        The same as numbers; None where there is none.
    holds_at : str
        The setting with which the study's privacy target would hold in this view.
    source : str
        Paper and theorem, or our derivation.
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
    text="Nobody has worked out whether the model shows a party's data as a whole: the noise is sized for one record.",
)
"""The last row of a statement whose noise is sized for one record."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What the rows of one statement have in common.

    Parameters
    ----------
    source : str
        Paper and theorem, or our derivation.
    assumptions : tuple of str
        What every row rests on.
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
        """Return a row with a proof; ``more`` are its own assumptions, the rest are a :class:`Claim`'s parameters."""
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
        """Return a row for a view against which nothing is proved; ``more`` are all its assumptions."""
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
    """Noise of which every party draws a share, and the privacy target that it is sized for."""

    @property
    def epsilon(self) -> float:
        """The target's epsilon."""

    @property
    def delta(self) -> float:
        """The target's delta."""

    @property
    def honest(self) -> int:
        """h, the number of shares that meet the target."""

    def proved(self, shares: int) -> tuple[float, float] | None:
        """Return (epsilon, delta) against whoever does not know ``shares`` of the shares; None where none holds."""


@dataclass(frozen=True, kw_only=True)
class SharedNoiseRows(Rows):
    """The rows of a statement whose noise all K parties draw in shares.

    Parameters
    ----------
    noise : DrawnInShares
    K : int
        Parties.
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
        """Return the row of a view that does not know ``unknown`` of the K shares of noise."""
        noise = self.noise
        target = f"epsilon = {digits(noise.epsilon)}, delta = {noise.delta:g}"
        enough, found = unknown >= noise.honest, noise.proved(unknown)
        colluding = counted(self.K - noise.honest, "colluding party", "colluding parties")
        claimed = (
            f"approximate, {target}: the privacy target, for {colluding}"
            if enough
            else "nothing: these are more than the study's colluders"
        )
        holds_at = "this noise" if enough else f"colluders = {self.K - unknown} in the study"
        if found is None:
            return self.none(
                view,
                text,
                *self.assumptions,
                *more,
                claimed=claimed,
                holds_at=holds_at,
                unit=unit,
                neighbours=neighbours,
                source=self.source,
            )
        epsilon, delta = found
        return self.proved(
            view,
            text,
            *more,
            claimed=claimed,
            provable=f"epsilon = {digits(epsilon)}, delta = {delta:g}",
            epsilon=epsilon,
            delta=delta,
            holds_at=holds_at,
            definition=definition,
            unit=unit,
            neighbours=neighbours,
        )


def honest_noise(parties: int) -> str:
    """Return what of the noise is left: "the noise of one honest party", "the noise of 3 honest parties"."""
    return "the noise of one honest party" if parties == 1 else f"the noise of {parties} honest parties"


def large_delta(delta: float, units: int, unit: str = "record") -> str:
    """Return a warning where delta is no small number, to be put behind a row's text; else nothing.

    Parameters
    ----------
    delta : float
    units : int
        The fewest records (or parties) that there may be.
    unit : str
        "record" or "party".
    """
    if delta * units < 1:
        return ""
    few = f"The study allows for as few as {units:,} records" if unit == "record" else f"There are {units:,} parties"
    own = "that record" if unit == "record" else "that party's records"
    return (
        f" Mind delta = {delta:g}: it is not less than 1/{units:,}. {few}. A protocol that publishes {own} with "
        "that probability, for each of them, would meet this target as well."
    )


def digits(value: float, rounded: Callable[[float], int] = math.ceil) -> str:
    """Show four significant digits; a bound is rounded up, since it must not look smaller than it is.

    Parameters
    ----------
    value : float
        At least 0.
    rounded : callable
        ``math.floor`` for what must not look larger.
    """
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    scaled = value / unit
    nearest = round(scaled)  # the division's own rounding must not turn 1 into 1.001
    return f"{(nearest if abs(scaled - nearest) < 1e-9 else rounded(scaled)) * unit:.4g}"  # noqa: PLR2004
