"""The privacy statement of input noise: what Bixler claims, and what is provable of a record and its noisy copies.

The noise is added before anything is computed, so the proof needs no view: whatever is made of the noisy copies, and
whoever sees it, Charlie with all other parties included, learns no more than the copies themselves would tell (local
differential privacy). An access of a record x in the unit ball, replaced by x', shifts the noise by ||x - x'|| <= 2.
"""

import math

from masquerade_core.errors import BadInput
from masquerade_core.privacy.claims import NONE, PARTY_UNIT, Claim, digits
from masquerade_core.privacy.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.mechanisms import GAUSSIAN_TV_BITS, L2_TV_BITS

__all__ = [
    "access_sensitivity",
    "copies_delta",
    "copies_epsilon",
    "input_noise_statement",
    "largest_alpha",
    "proven_alpha",
]

_CLAIMED = '"privacy-secure"; no epsilon, no definition, no theorem'
_RECORD = "replace one record, all sizes fixed"
_FEATURES = "replace one record's features; its label and all sizes fixed"
_SOURCE = "our derivation: {law} of a record perturbed {m}; what is computed from noisy copies costs nothing more"
_ASSUMPTIONS = (
    "the record's own party follows the protocol; nothing is assumed of anybody else",
    "records are encoded by public bounds and clipped to norm 1; nothing else was chosen by looking at them",
    "N, the number of all records, is published as it is; sizes are not covered by epsilon",
    "the model is released once; every further run over the same records adds its own epsilon",
)

_DIAMETER = 2.0  # of the unit ball
_SHORT = 1 - 2.0**-23  # of a derived alpha, so that floats' error leaves it on the safe side, for tiny wishes too


def access_sensitivity(d: int, fraction_bits: int) -> float:
    """Return how far apart two records of d coordinates lie at most once they are rounded to a grid of 2^-F."""
    return _DIAMETER + math.sqrt(d) * 2.0**-fraction_bits


def copies_epsilon(*, law: str, alpha: float, copies: int, delta: float = 0.0, sensitivity: float = _DIAMETER) -> float:
    """Return the epsilon of m noisy copies of one record.

    * "l2": density exp(-(alpha/2) ||n||_2): a shift by s costs at most alpha s/2, by the triangle inequality, and m
      copies m times that; pure. For s = 2: m alpha.
    * "gaussian": N(0, I/alpha^2): m shifts by s are one Gaussian mechanism of mu = s alpha sqrt(m); for s = 2: 2 alpha
      sqrt(m) (:func:`~masquerade_core.privacy.gaussian_dp.epsilon_of`).

    Parameters
    ----------
    alpha : float
        Greater than 0.
    copies : int
        m, how often the record is perturbed; 1 where the noisy copy is kept.
    delta : float
        For "gaussian": greater than 0.

    References
    ----------
    Song, Chaudhuri and Sarwate 2013, equation (2). Dong, Roth and Su 2022, Corollary 3.3.
    """
    if law == "l2":
        return copies * alpha * sensitivity / 2
    return epsilon_of(sensitivity * alpha * math.sqrt(copies), delta)


def copies_delta(*, law: str, copies: int, epsilon: float, delta: float = 0.0) -> float:
    """Return delta, with what each draw's distance from its law adds: (1 + e^epsilon) 2^-60, on both neighbours."""
    distance = 2.0 ** -(L2_TV_BITS if law == "l2" else GAUSSIAN_TV_BITS)
    return min(1.0, (0.0 if law == "l2" else delta) + copies * distance * (1 + math.exp(min(epsilon, 700.0))))


def largest_alpha(*, law: str, epsilon: float, delta: float, copies: int) -> float:
    """Return the largest alpha under which m copies of the features cost no more than ``epsilon`` and ``delta``."""
    if law == "l2":
        return epsilon / copies
    return mu_of(epsilon, delta) / (2 * math.sqrt(copies))


def proven_alpha(*, law: str, epsilon: float, epsilon_y: float, delta: float, sensitivity: float) -> float:
    """Return the largest alpha under which one copy of a record, label included, keeps the wish; rounded down.

    The label's randomised response costs epsilon_y, so the features have epsilon - epsilon_y: the noise on them is
    independent of the label's, and the two costs add up. What the sampler's distance from its law adds to delta
    (:func:`copies_delta`) is taken off before.

    * "gaussian": mu(epsilon - epsilon_y, delta) = s alpha, s how far two records lie apart.
    * "l2": epsilon - epsilon_y = alpha s/2.

    Parameters
    ----------
    epsilon, delta : float
        The study's wish.
    epsilon_y : float
        A label's share of epsilon.
    sensitivity : float
        s, of :func:`access_sensitivity`.

    Raises
    ------
    BadInput
        The label takes all of epsilon, or the sampler more than delta.
    """
    if not 0 < epsilon_y < epsilon:
        raise BadInput(
            f"[protocol] epsilon_y is {epsilon_y:g} and [privacy] epsilon {epsilon:g}: nothing of the wish is left "
            "for a record's features",
            "choose an epsilon_y less than epsilon, such as a third of it",
        )
    left = delta - copies_delta(law=law, copies=1, epsilon=epsilon)
    if left < 0 or (law == "gaussian" and left == 0):
        raise BadInput(
            f"[privacy] delta is {delta:g}, but at epsilon = {epsilon:g} the noise's arithmetic alone takes "
            f"{delta - left:.2g} of it",
            "choose a larger delta" if epsilon < 1 else "choose a larger delta, or a smaller epsilon",
        )
    features = epsilon - epsilon_y
    alpha = 2 * features / sensitivity if law == "l2" else mu_of(features, left) / sensitivity
    return alpha * _SHORT


def input_noise_statement(
    *,
    K: int,
    d: int,
    law: str,
    alpha: float,
    copies: int,
    epsilon_y: float | None,
    eps: float,
    delta: float,
    fraction_bits: int,
    proven: bool = False,
) -> tuple[Claim, ...]:
    """Return the statement for ``input-noise``.

    Parameters
    ----------
    K, d : int
        Parties; coordinates, the constant counted.
    law : str
        "gaussian" or "l2".
    alpha : float
        The paper's privacy parameter.
    copies : int
        m, how often a record's features are perturbed: 1 where the noisy copy is kept, else the number of epochs.
    epsilon_y : float or None
        What a label loses to randomised response; None where labels are used as they are.
    eps, delta : float
        The study's wish. For "gaussian", ``delta`` is what the proved epsilon goes with.
    fraction_bits : int
        F of the grid 2^-F that records are rounded to.
    proven : bool
        Whether alpha is that of :func:`proven_alpha`; what is proved is then the wish.
    """
    apart = access_sensitivity(d, fraction_bits)
    features = copies_epsilon(law=law, alpha=alpha, copies=copies, delta=delta, sensitivity=apart)
    total = features + (epsilon_y or 0.0)
    lost = copies_delta(law=law, copies=copies, epsilon=total, delta=delta)
    if proven:  # by construction, whatever the last bit of a float is
        total, features = eps, eps - (epsilon_y or 0.0)
        lost = delta if law == "gaussian" else copies_delta(law=law, copies=1, epsilon=eps)
    often = "once" if copies == 1 else f"{copies} times"
    shown = {"l2": "m alpha", "gaussian": "Gaussian mechanism with mu = 2 alpha sqrt(m)"}[law]
    meets = total <= eps and lost <= delta + 2.0**-40
    wish = "the wish holds" if meets else "the wish is not proved"
    unperturbed = epsilon_y is None

    def row(view: str, text: str) -> Claim:
        return Claim(
            view=view,
            unit="record",
            neighbours=_FEATURES if unperturbed else _RECORD,
            definition="approximate",
            claimed=_CLAIMED,
            provable=f"epsilon = {digits(total)}, delta = {lost:.1e}",
            epsilon=total,
            delta=lost,
            holds_at="this noise" if proven else _holds_at(law, eps - (epsilon_y or 0.0), delta, copies),
            source=_SOURCE.format(law=shown, m=often),
            assumptions=_ASSUMPTIONS,
            text=text,
        )

    of = "Of a record's features alone, its label being the same" if unperturbed else "Of a record and its label"
    label = "" if unperturbed else f" and epsilon_y = {epsilon_y:g} for its label"
    rows = [
        row(
            "released model",
            f"{of}, {wish}. Each record is perturbed {often}, which costs epsilon = {digits(features)} for its "
            f"features{label}; nothing that is computed from the noisy copies adds to that.",
        ),
        row("Charlie", "Charlie sees ciphertexts, N and the model, which are made of noisy copies alone."),
    ]
    if K > 1:
        others = f"{K - 1} {'party' if K == 2 else 'parties'}"  # noqa: PLR2004
        rows += [
            row("one party", "A party knows its own records and noise. All else it sees is made of noisy copies."),
            row(
                f"Charlie with {others}",
                "They hold the last party's classifier. It, too, is made of noisy copies: each record is protected by "
                "its own noise, and needs nobody else's.",
            ),
        ]
    if unperturbed:
        rows.insert(0, _labels_row())
    return (*rows, PARTY_UNIT)


def _holds_at(law: str, epsilon: float, delta: float, copies: int) -> str:
    if epsilon <= 0:
        return "no alpha: the labels alone cost more than the study's epsilon"
    alpha = largest_alpha(law=law, epsilon=epsilon, delta=delta, copies=copies)
    return f"alpha = {digits(alpha, math.floor)} or less in the study"


def _labels_row() -> Claim:
    return Claim(
        view="released model",
        unit="record",
        neighbours=_RECORD,
        definition=NONE,
        claimed=_CLAIMED,
        provable=NONE,
        epsilon=None,
        delta=None,
        holds_at='labels = "randomised-response" in the study',
        source="Bixler, equations (6) and (8), by inspection: N(z) perturbs x and leaves y",
        assumptions=(),
        text="Labels are used as they are. A step's direction follows a label's sign, and nothing is proved of whether "
        "a record's label can be told from the model.",
    )
