"""The privacy statement of input noise: what Bixler claims, and what is provable of a record and its noisy copies.

The noise is added before anything is computed, so the proof needs no view: whatever is made of the noisy copies, and
whoever sees it, Charlie with all other parties included, learns no more than the copies themselves would tell (local
differential privacy). An access of a record x in the unit ball, replaced by x', shifts the noise by ||x - x'|| <= 2.
"""

import math

from masquerade_core.privacy.noise.noisy_copies import access_sensitivity, copies_delta, copies_epsilon, largest_alpha
from masquerade_core.privacy.statement import NONE, PARTY_UNIT, Claim, digits

__all__ = ["input_noise_statement"]

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
