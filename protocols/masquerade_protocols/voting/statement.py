"""The noise and the privacy statement of ``vote`` and ``soft``: what Hamm, Cao and Belkin claim, and what is provable.

A row's unit is one party with all its records. A party's data reach the model through its votes alone, and those are
bounded whatever the records are and however many; so what is proved of a party's data covers their number, too, and
every single record of theirs.

In formulas M is the number of parties and N that of auxiliary points, as in the paper. Votes of one party move the
minimiser by at most Delta in L2 norm (Theorems 1 and 3; equations (53) and (60))::

                      vote              soft
    labels -1, +1     2/lambda          2/(M lambda)
    softmax           sqrt2/lambda      sqrt2/(M lambda)

For each point the gradients of two labels differ by at most 2, or sqrt2 for softmax; by an M-th of it if only one of M
votes differs; and lambda-strong convexity turns that into a distance. These are what the paper's noise is drawn for.
They are not sharp (:func:`sharp_sensitivity`), and the statement quotes what is proved with the sharper ones.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.output_perturbation import provable_delta
from masquerade_core.privacy.noise.votes import sharp_sensitivity, votes_sensitivity
from masquerade_core.privacy.statement import NONE, Claim

__all__ = ["vote_statement"]

_NEIGHBOURS = "replace all records of one party, their number included"
_RECORD_NEIGHBOURS = "replace one record, or add or remove it"
_SAMPLE_NEIGHBOURS = "replace one auxiliary sample, and all records of one party"
_NO_COLLUSION = "nothing: the paper's trusted entity holds every local classifier"
_SOURCE = "Hamm, Cao and Belkin 2016, Theorems 1 and 3; for softmax, equations (53) and (60)"
_SAMPLE_SOURCE = "Hamm, Cao and Belkin 2016, section 4.5"
_ASSUMPTIONS = (
    "everybody follows the protocol",
    "the auxiliary points, epsilon and regularization were chosen without looking at any party's records",
    f"the classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted, as is rounding",
    "the model is released once; every further run over the same records adds its own epsilon",
)


def vote_statement(
    *,
    name: str,
    M: int,
    N: int,
    dimensions: int,
    loss: str,
    classes: int | None,
    beta: float,
    eps: float,
    Lambda: float,
    fraction_bits: int,
    colluders: int,
    private_auxiliary: bool,
) -> tuple[Claim, ...]:
    """Return the statement for ``vote`` or ``soft`` with ``calibration = "paper"``.

    Parameters
    ----------
    name : str
        The protocol.
    M, N : int
        Parties; auxiliary points.
    dimensions : int
        Of the released vector: d, or C d for C named classes.
    loss : str
        By its name.
    classes : int or None
        C of named classes; None for labels -1 and +1.
    beta : float
        Of the noise, from :func:`output_rate`.
    eps : float
        The study's wish.
    Lambda : float
        The paper's lambda.
    fraction_bits : int
        F of the grid 2^-F that the classifier is rounded to.
    colluders : int
        Parties that may side with Charlie.
    private_auxiliary : bool
        Whether the auxiliary samples are to be protected as well.
    """
    soft, softmax = name == "soft", classes is not None
    inexact = math.sqrt(dimensions) * 2.0**-fraction_bits + 2 * TOLERANCE / Lambda

    def sharp(samples: int | None = None) -> float:
        return sharp_sensitivity(soft=soft, loss=loss, classes=classes, Lambda=Lambda, M=M, N=samples)

    def proved(samples: int | None) -> float:
        """Beta times the distance of two neighbours' classifiers, on the grid."""
        return beta * (sharp(samples) + inexact)

    theorem = (
        "equation (60)" if soft and softmax else "Theorem 3" if soft else "equation (53)" if softmax else "Theorem 1"
    )

    def row(view: str, text: str, *assumptions: str, unit: str = "party", samples: int | None = None) -> Claim:
        epsilon = proved(samples)
        delta = provable_delta(d=dimensions, epsilon=epsilon, noise="l2")
        return Claim(
            view=view,
            unit=unit,
            neighbours={"party": _NEIGHBOURS, "record": _RECORD_NEIGHBOURS}.get(unit, _SAMPLE_NEIGHBOURS),
            definition="approximate" if view == "released model" else "approximate, computational",
            claimed=f"pure, epsilon = {eps:g} ({theorem if samples is None else 'section 4.5'})",
            provable=f"epsilon = {_shown(epsilon)}, delta = {delta:.1e}",
            epsilon=epsilon,
            delta=delta,
            holds_at=f"this noise with epsilon = {_shown(eps * eps / epsilon, ROUND_FLOOR)} in the study",
            source="docs/privacy/voting.md, sharper than " + (_SOURCE if samples is None else _SAMPLE_SOURCE),
            assumptions=(*_ASSUMPTIONS, *assumptions),
            text=text,
        )

    def none(view: str, text: str) -> Claim:
        return Claim(
            view=view,
            unit="party",
            neighbours=_NEIGHBOURS,
            definition=NONE,
            claimed=_NO_COLLUSION,
            provable=NONE,
            epsilon=None,
            delta=None,
            holds_at='no scale of this noise; calibration = "proven" in the study puts noise on the counts',
            source="by inspection",
            assumptions=(),
            text=text,
        )

    reach = votes_sensitivity(soft=soft, softmax=softmax, Lambda=Lambda, M=M)
    t = max(1, colluders)
    left = M - t
    theirs = (
        "every vote of the one party that is left" if left == 1 else f"the exact votes of the other {left} together"
    )
    rows = (
        row(
            "released model",
            f"Whoever sees only the model: one party's votes move the classifier by at most {_shown(sharp())}, "
            f"whatever its records are. The paper's noise is drawn for {_shown(reach)}.",
        ),
        row(
            "released model",
            "A record is part of one party's data, so what is proved of these is proved of it.",
            unit="record",
        ),
        none(
            "Charlie",
            f"Charlie is the paper's trusted entity. He sees how many of the {M} parties voted for what at each of the "
            f"{N} auxiliary points, exactly, and knows the noise. Who voted for what he does not see.",
        ),
        row(
            "one party",
            "A party sees its own votes and the model: neither the counts nor the noise. Nor does the lead: the counts "
            "that it opens for Charlie are hidden behind random numbers of his.",
            "the party does not collude with Charlie, and cannot break the boxes or the lead's Paillier key",
        ),
        none(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
            f"They take their own votes off the counts. What is left is {theirs}.",
        ),
    )
    if not private_auxiliary:
        return rows
    return (
        *rows,
        row(
            "released model",
            "Whoever sees the model and takes no part in the run. The participants hold the file with the auxiliary "
            "samples, for they vote on them.",
            "the auxiliary samples are known to the participants only",
            unit="auxiliary sample",
            samples=N,
        ),
    )


def _shown(value: float, rounding: str = ROUND_CEILING) -> str:
    """Show six significant digits; a bound is rounded up, since it must not look smaller than it is."""
    return f"{float(Context(prec=6, rounding=rounding).create_decimal_from_float(value)):g}"
