"""Who sees what of a run of ``input-noise``: what Bixler claims, and what is proved of a record and its noisy copies.

The noise is added before anything is computed, so the proof is the same for every view. Whatever is computed from the
noisy copies tells no more than the copies themselves, no matter who sees it. That includes Charlie with all other
parties (local differential privacy). Replacing a record x in the unit ball by x' shifts a noisy copy by
||x - x'|| <= 2.
"""

import math
from functools import partial

from masquerade_core.learning.input_noise import FRACTION_BITS
from masquerade_core.privacy.noise.noisy_copies import access_sensitivity, copies_delta, copies_epsilon, largest_alpha
from masquerade_core.privacy.several_records import Target, several_records
from masquerade_core.privacy.statement import (
    ONE_RELEASE,
    PUBLIC_SETTINGS,
    REPLACE_RECORD,
    Claim,
    Rows,
    digits,
)
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.input_noise.public import alpha_of, parameters_of

__all__ = ["input_noise_statement", "statement"]

_CLAIMED = '"privacy-secure"; no epsilon, no definition, no theorem'
_FEATURES = "replace one record's features; its label and all sizes fixed"
_PRICE = {"l2": "m alpha", "gaussian": "Gaussian mechanism with mu = 2 alpha sqrt(m)"}
_ASSUMPTIONS = (
    "the party that holds the record follows the protocol and draws its noise",
    PUBLIC_SETTINGS,
    "N, the number of all records, is published as it is; epsilon does not cover sizes",
    ONE_RELEASE,
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the privacy statement of a study."""
    chosen = parameters_of(study)
    rows = input_noise_statement(
        K=study.K,
        d=study.d,
        law=chosen.noise,
        alpha=alpha_of(study),
        copies=chosen.copies,
        epsilon_y=chosen.epsilon_y,
        eps=study.privacy.epsilon,
        delta=study.privacy.delta,
        fraction_bits=FRACTION_BITS,
        proven=study.proven,
        sees=sum_words(study).charlie_sees,
    )

    def settings(target: Target) -> str:
        kept = f"epsilon = {target.epsilon:g}, delta = {target.delta:g} and epsilon_y = {_label(target.epsilon)}"
        return (
            kept if study.proven else f'calibration = "proven", labels = "randomised-response", {kept}, without alpha'
        )

    return (*rows, *several_records(study, rows[0], settings=settings))


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
    sees: str = "ciphertexts",
) -> tuple[Claim, ...]:
    """Return the statement for these public numbers.

    Parameters
    ----------
    K, d : int
        Parties; coordinates, the constant counted.
    law : str
        "gaussian" or "l2".
    alpha : float
        The paper's privacy parameter.
    copies : int
        m, how often a record's features are perturbed: 1 if one noisy copy is kept, else the number of epochs.
    epsilon_y : float or None
        A label's cost by randomised response; None if labels are used as they are.
    eps, delta : float
        The privacy target. For "gaussian", ``delta`` also stands beside the proved epsilon.
    fraction_bits : int
        F of the grid 2^-F that records are rounded to.
    proven : bool
        Whether alpha is that of :func:`~masquerade_core.privacy.noise.noisy_copies.proven_alpha`. It then keeps the
        target.
    sees : str
        What Charlie sees of a party's contribution.
    """
    apart = access_sensitivity(d, fraction_bits)
    noise = partial(copies_epsilon, law=law, alpha=alpha, copies=copies, delta=delta, sensitivity=apart)
    features, total = noise(), noise(epsilon_y=epsilon_y or 0.0)
    lost = copies_delta(law=law, copies=copies, epsilon=total, delta=delta)
    if proven:  # by construction; the numbers above may differ from it in the last bit
        total = eps
        lost = delta if law == "gaussian" else copies_delta(law=law, copies=1, epsilon=eps)
    often = "once" if copies == 1 else counted(copies, "time")
    unperturbed = epsilon_y is None
    rows = Rows(
        source=f"our derivation: {_PRICE[law]} of a record perturbed {often}; whatever is computed from noisy copies "
        "costs nothing more",
        assumptions=_ASSUMPTIONS,
        neighbours=_FEATURES if unperturbed else REPLACE_RECORD,
    )
    row = partial(
        rows.proved,
        claimed=_CLAIMED,
        provable=f"epsilon = {digits(total)}, delta = {lost:.1e}",
        epsilon=total,
        delta=lost,
        holds_at="this noise" if proven else _holds_at(law, eps, epsilon_y or 0.0, delta, copies, apart),
        definition="approximate",
    )

    of = "Of a record's features alone, its label being the same" if unperturbed else "Of a record and its label"
    verdict = "holds" if total <= eps and lost <= delta + 2.0**-40 else "is not proved"
    label = "" if unperturbed else f" and {epsilon_y:g} for its label, together epsilon = {digits(total)}"
    views = [
        row(
            "released model",
            f"{of}, the privacy target {verdict}. Each record is perturbed {often}, which costs epsilon = "
            f"{digits(features)} for its features{label}. Nothing that is computed from the noisy copies adds to that.",
        ),
        row(
            "Charlie",
            f"Charlie sees {sees}, N and the model. Apart from sizes, all that is computed from noisy copies.",
        ),
    ]
    if K > 1:
        views += [
            row(
                "one party",
                "A party knows its own records and its own noise. Apart from sizes, all else that it sees is computed "
                "from noisy copies.",
            ),
            row(
                f"Charlie with {counted(K - 1, 'party', 'parties')}",
                "They hold the last party's classifier. It, too, is computed from noisy copies. Each record is "
                "protected by the noise on it, and needs no other.",
            ),
        ]
    labels = [_labels_row(rows, _holds_at(law, eps, eps, delta, copies, apart))] if unperturbed else []
    return (*labels, *views)


def _holds_at(law: str, epsilon: float, epsilon_y: float, delta: float, copies: int, apart: float) -> str:
    """Return the alpha with which the target holds, and an epsilon_y where the study's takes all of epsilon."""
    enough, label = "", epsilon_y
    if epsilon <= epsilon_y:
        label = float(_label(epsilon))
        enough = f"epsilon_y = {label:g} and "
    alpha = largest_alpha(law=law, epsilon=epsilon, delta=delta, copies=copies, sensitivity=apart, epsilon_y=label)
    return f"{enough}alpha = {digits(alpha, math.floor)} in the study"


def _label(epsilon: float) -> str:
    """Return an epsilon_y that leaves most of epsilon to the features."""
    return digits(epsilon * 0.3, math.floor)


def _labels_row(rows: Rows, enough: str) -> Claim:
    return rows.none(
        "released model",
        "Labels are used as they are, without noise. Each training step goes in a direction that depends on the label. "
        "So it is not proved that the model hides a record's label.",
        claimed=_CLAIMED,
        holds_at=f'labels = "randomised-response", {enough}',
        neighbours=REPLACE_RECORD,
        source="Bixler, equations (6) and (8), by inspection: N(z) perturbs x and leaves y",
    )
