"""Who sees what of local aggregation, claimed and proved: the rows of a study's privacy statement."""

import math

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.output_perturbation import LARGEST_SMALLEST, provable_delta, provable_epsilon
from masquerade_core.privacy.several_records import proven_settings, several_records
from masquerade_core.privacy.statement import BREAKS, FOLLOWS, ONE_RELEASE, PUBLIC_SETTINGS, Claim, Rows, digits
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.local_aggregation.proven_statement import proven_statement
from masquerade_protocols.local_aggregation.public import FRACTION_BITS, joint_noise_of, parameters_of

__all__ = ["paper_statement", "statement"]

_NO_COLLUSION = "nothing: the paper excludes collusion"
_PROVEN = 'calibration = "proven" and colluders = 1 in the study, where nobody knows the whole noise'
_SMALLEST_DELTA = 2.0**-40  # a chance that counts as none
_SMALLEST_SHOWS = (
    "epsilon does not cover sizes; masks hide them, but the scale of the noise follows from the smallest one, and "
    "everyone can estimate it from the model if the noise is not small"
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the privacy statement of a study with ``local-aggregation``."""
    if study.proven:
        noise = joint_noise_of(study)
        found = proven_statement(noise)
        return (*found, *several_records(study, found[0], lambda size: noise.proved(study.K, size)))
    found = paper_statement(
        K=study.K,
        d=study.d,
        eps=study.privacy.epsilon,
        delta=study.privacy.delta,
        Lambda=study.model.regularization,
        noise=parameters_of(study).noise,
        fraction_bits=FRACTION_BITS,
        colluders=study.privacy.colluders,
        min_records=study.study.min_records,
    )
    return (*found, *several_records(study, found[0], settings=proven_settings, settings_law="gaussian"))


def paper_statement(
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
    """Return the statement for calibration "paper".

    Parameters
    ----------
    K, d : int
        Parties; coordinates, the constant counted.
    eps, delta : float
        The study's privacy target.
    Lambda : float
        Regularization, twice the paper's lambda.
    noise : str
        "laplace" or "l2".
    fraction_bits : int
        F of the grid 2^-F that everything is rounded to.
    colluders : int
        Parties that may side with Charlie.
    min_records : int
        The public floor of n_j.
    """
    epsilon = provable_epsilon(K=K, d=d, eps=eps, Lambda=Lambda, noise=noise, fraction_bits=fraction_bits)
    generic = provable_epsilon(K=K, d=d, eps=eps, Lambda=Lambda, noise=noise, refined=False)
    lost = provable_delta(d=d, epsilon=epsilon, noise=noise)
    met = epsilon <= eps and lost <= max(delta, _SMALLEST_DELTA)
    if noise == "laplace":
        formula, theorem = "epsilon sqrt(d)/(2K)", "Theorem 4.1"
        scale = "b = 2 s sqrt(d)/(K n_(1) Lambda epsilon)"
    else:
        formula, theorem = "epsilon/K", "Rajkumar and Agarwal, footnote 2"
        scale = "beta = K n_(1) Lambda epsilon/(2 s)"
    enough = eps**2 / epsilon  # what is proved is proportional to the study's epsilon
    rows = Rows(
        source="our derivation from Chaudhuri and Monteleoni 2008, Corollary 2",
        assumptions=(
            "everybody follows the protocol",
            PUBLIC_SETTINGS,
            f"each local classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted",
            f"the smallest party has at least {min_records:,} and at most {LARGEST_SMALLEST:,} records",
            _SMALLEST_SHOWS,
            ONE_RELEASE,
        ),
    )

    def proved(view: str, text: str, *more: str, claimed: str = "") -> Claim:
        """Return the row of a view that cannot take the noise off the model."""
        return rows.proved(
            view,
            text,
            *more,
            claimed=claimed or f"pure, epsilon = {digits(eps)} ({theorem})",
            provable=f"epsilon = {digits(epsilon)}, delta = {lost:.1e}",
            epsilon=epsilon,
            delta=lost,
            holds_at=f"epsilon = {digits(enough, math.floor)} in the study",
        )

    def none(view: str, text: str, claimed: str, holds_at: str = _PROVEN, adversary: str = FOLLOWS) -> Claim:
        """Return the row of a view against which nothing is proved."""
        return rows.none(
            view,
            text,
            claimed=claimed,
            holds_at=holds_at,
            source="Pathak, Rane, Raj 2010, section 3.2, Stages 2 and 3, by inspection",
            adversary=adversary,
        )

    t = max(1, colluders)
    two = K == 2  # noqa: PLR2004
    rest = "the other party's classifier" if two else f"the sum of the {K - 1} other classifiers"
    return (
        proved(
            "released model",
            "Everybody sees only the published shares. "
            + ("The privacy target is met. " if met else "The privacy target is not proved. ")
            + f"A bound on how far a record moves any classifier gives {formula} = {digits(generic)}. With this "
            f"regularization, classifiers are short, and a record moves them less. That gives {digits(epsilon)}, with "
            f"rounding and inexact minimisers counted. Noise that meets the target has {scale}.",
            "the published shares are masked with keys that no outsider can compute",
        ),
        proved(
            "Charlie",
            "Charlie sees masked numbers and the model. He also sees who wins the comparisons of unnamed parties, but "
            "the winners are equally random for all sizes. He cannot take the noise off, since every party masks it. "
            "He learns no more of the sizes than the model shows.",
            "Charlie colludes with nobody, and cannot break the sealed boxes or the lead's Paillier key",
        ),
        proved(
            "one party, not the smallest",
            "A party knows its own records and its own noise, which was not selected. Of the others' records it learns "
            "what the model tells. The lead, the party that holds a secret key, learns no more: the numbers that it "
            "opens are blinded." + (" The party also learns that the other party has fewer records." if two else ""),
            "the party colludes with nobody, and cannot break the sealed boxes or Charlie's Paillier key",
        ),
        none(
            "the party with the fewest records",
            "This party drew the noise and knows it. It can take the noise and its own classifier off the model. The "
            f"rest tells it that its noise was used. So it holds {rest} exactly.",
            "neither Charlie nor any of the parties can individually remove the noise (section 3.2, b)",
        ),
        proved(
            "Charlie with the lead, which is not the smallest party",
            "Together they hold both keys. They read every party's number of records, and so learn who drew the noise. "
            "Of the other classifiers they see only the sum, with the noise on it.",
            "the lead is not the party with the fewest records; if it is, nothing is proved",
            claimed=_NO_COLLUSION,
        ),
        proved(
            f"Charlie with {counted(t, 'party', 'parties')}, the smallest not among them",
            "Together they know in which order the parties were shuffled. So they learn, for "
            f"{counted(K - 1, 'pair')} of parties, which of the two has fewer records, and who has the fewest. With "
            "the lead among them they learn all sizes. Of the other classifiers they see only the sum, with the noise "
            "on it.",
            "the party with the fewest records is honest; nobody knows beforehand who that is",
            claimed=_NO_COLLUSION,
        ),
        none(
            "Charlie or any party, together with the smallest party",
            "The smallest party knows the noise, and anyone who learns it from that party can take it off.",
            _NO_COLLUSION,
        ),
        none(
            "Charlie or a party that breaks the rules",
            "Each of three participants can alone make a model without noise, and nobody notices. Charlie can select "
            "nobody's noise. The lead can steer the comparison. A party can claim to have the fewest records, and draw "
            "no noise.",
            "nothing: the paper assumes that all follow the protocol",
            'calibration = "proven" and colluders = 1 in the study',
            BREAKS,
        ),
    )
