"""The privacy statement: what the paper claims and what is provable, for every view of a run.

A row speaks of one view (who looks), one unit (whose privacy) and one definition. ``epsilon`` is a number only where
something is proved; otherwise ``provable`` says "none", or "not assessed" where nobody has worked it out.

Conventions of all rows: neighbours differ in one record, replaced, and all sizes n_j are fixed, since the noise's scale
itself depends on n_(1). Records lie in the unit ball by public bounds alone.
"""

import math
from dataclasses import dataclass

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.output_perturbation import (
    LARGEST_SMALLEST,
    provable_delta,
    provable_epsilon,
)
from masquerade_core.privacy.statement import NONE, PARTY_UNIT, Claim, digits

__all__ = ["local_aggregation_statement"]

_NEIGHBOURS = "replace one record, all sizes fixed"
_NO_COLLUSION = "nothing: the paper excludes collusion"


def local_aggregation_statement(
    *,
    K: int,
    d: int,
    eps: float,
    delta: float,
    Lambda: float,
    noise: str,
    fraction_bits: int,
    colluders: int,
    min_records: int,
) -> tuple[Claim, ...]:
    """Return the statement for ``local-aggregation`` with ``calibration = "paper"``.

    Parameters
    ----------
    K, d : int
        Parties; coordinates, the constant counted.
    eps, delta : float
        The study's wish.
    Lambda : float
        Regularisation, twice the paper's lambda.
    noise : str
        "laplace" or "l2".
    fraction_bits : int
        F of the grid 2^-F that everything is rounded to.
    colluders : int
        Parties that may side with Charlie.
    min_records : int
        The public floor of n_j.
    """
    proved = provable_epsilon(K=K, d=d, eps=eps, Lambda=Lambda, noise=noise, fraction_bits=fraction_bits)
    generic = provable_epsilon(K=K, d=d, eps=eps, Lambda=Lambda, noise=noise, refined=False)
    proved_delta = provable_delta(d=d, epsilon=proved, noise=noise)
    rows = _Rows(K, eps, delta, noise, proved, proved_delta, _common_assumptions(min_records))
    formula = "epsilon sqrt(d)/(2K)" if noise == "laplace" else "epsilon/K"
    wish = "the wish holds" if rows.wish_holds else "the wish is not proved"
    t = max(1, colluders)
    rest = "the other party's classifier" if K == 2 else f"the sum of the {K - 1} other classifiers"  # noqa: PLR2004
    return (
        rows.proved(
            "released model",
            f"Whoever sees only what is published: {wish}. The generic bound on how far a record moves a classifier "
            f"gives {formula} = {digits(generic)}; the slopes that can occur at this regularization give "
            f"{digits(proved)}, with rounding and inexact minimisers counted.",
            "the published shares are masked with keys that no outsider can compute",
        ),
        rows.proved(
            "Charlie",
            "Charlie sees masked numbers, a bracket of unnamed sizes whose law is the same for all sizes, and the "
            "model. He cannot take the noise off, since every party masks it, and learns no more of the sizes than the "
            "model shows.",
            "Charlie colludes with nobody, and cannot break the boxes or the lead's Paillier key",
        ),
        rows.proved(
            "one party, not the smallest",
            "A party knows its own records and its own noise, which was not selected. Of the others' records it learns "
            "what the model tells. The lead, too: the numbers it opens are blinded."
            + (" It also learns that the other party has fewer records." if K == 2 else ""),  # noqa: PLR2004
            "the party colludes with nobody, and cannot break the boxes or Charlie's Paillier key",
        ),
        rows.none(
            "the party with the fewest records",
            "neither Charlie nor any of the parties can individually remove the noise (section 3.2, b)",
            f"It drew the noise and knows it. It can take it off the model, see that what is left makes sense, and so "
            f"holds {rest} exactly.",
        ),
        rows.proved(
            "Charlie with the lead, which is not the smallest party",
            "Together they hold both keys and read every party's number of records, and so who drew the noise. Of the "
            "other classifiers they see the sum, with the noise on it.",
            "the lead is not the party with the fewest records, else nothing is left to prove",
            claimed=_NO_COLLUSION,
        ),
        rows.proved(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}, the smallest not among them",
            f"Together they know the permutation, and so of {K - 1} pairs of parties which has fewer records, and who "
            "has the fewest; with the lead among them all sizes. Of the other classifiers they see the sum, with the "
            "noise on it.",
            "the party with the fewest records is honest; nobody knows beforehand who that is",
            claimed=_NO_COLLUSION,
        ),
        rows.none(
            "Charlie or any party, together with the smallest party",
            _NO_COLLUSION,
            "The smallest party knows the noise, and whoever learns it from that party can take it off.",
        ),
        rows.none(
            "Charlie or a party that breaks the rules",
            "nothing: the paper assumes that all follow the protocol",
            "A Charlie who selects nobody's noise, a lead that steers the comparison, or a party that claims to have "
            "the fewest records and draws no noise gets a model without noise, and is not caught.",
        ),
        PARTY_UNIT,
    )


def _common_assumptions(min_records: int) -> tuple[str, ...]:
    preprocessing = (
        "records are encoded by public bounds and clipped to norm 1; no other preprocessing, bound, epsilon or "
        "regularization was chosen by looking at them"
    )
    sizes = (
        "the numbers of records are not covered by epsilon: masks hide them, but the noise's scale follows from the "
        "smallest one, which everybody can estimate from the model wherever the noise is not small"
    )
    return (
        "everybody follows the protocol",
        preprocessing,
        f"each local classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted",
        f"the smallest party has at least {min_records:,} and at most {LARGEST_SMALLEST:,} records",
        sizes,
        "the model is released once; every further run over the same records adds its own epsilon",
    )


@dataclass(frozen=True)
class _Rows:
    """What the rows of one statement have in common."""

    K: int
    eps: float
    wished_delta: float
    noise: str
    epsilon: float
    delta: float
    assumptions: tuple[str, ...]

    @property
    def wish_holds(self) -> bool:
        """Whether what is proved is what was wished; a chance of 2^-40 counts as none."""
        return self.epsilon <= self.eps and self.delta <= max(self.wished_delta, 2.0**-40)

    @property
    def _claimed(self) -> str:
        where = "Theorem 4.1" if self.noise == "laplace" else "Rajkumar and Agarwal, footnote 2"
        return f"pure, epsilon = {digits(self.eps)} ({where})"

    def proved(self, view: str, text: str, *assumptions: str, claimed: str = "") -> Claim:
        """Return a row for a view that is no more than the model, masked as it may be."""
        if self.noise == "laplace":
            law = "b = 2 s sqrt(d)/(K n_(1) Lambda epsilon)"
        else:
            law = "beta = K n_(1) Lambda epsilon/(2 s)"
        at = self.eps**2 / self.epsilon  # what is proved is proportional to the study's epsilon
        return Claim(
            view=view,
            unit="record",
            neighbours=_NEIGHBOURS,
            definition="approximate, computational",
            claimed=claimed or self._claimed,
            provable=f"epsilon = {digits(self.epsilon)}, delta = {self.delta:.1e}",
            epsilon=self.epsilon,
            delta=self.delta,
            holds_at=f"{law}; that is this noise with epsilon = {digits(at, math.floor)} in the study",
            source="our derivation from Chaudhuri and Monteleoni 2008, Corollary 2",
            assumptions=(*self.assumptions, *assumptions),
            text=text,
        )

    def none(self, view: str, claimed: str, text: str) -> Claim:
        """Return a row for a view against which nothing can be proved."""
        return Claim(
            view=view,
            unit="record",
            neighbours=_NEIGHBOURS,
            definition=NONE,
            claimed=claimed,
            provable=NONE,
            epsilon=None,
            delta=None,
            holds_at="no scale of this noise; it takes a protocol in which nobody knows the noise",
            source="Pathak, Rane, Raj 2010, section 3.2, Stages 2 and 3, by inspection",
            assumptions=(),
            text=text,
        )
