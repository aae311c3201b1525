"""The public numbers of ``weighted-dp``: its parameters, and the noise, weights and slots that follow from them.

Every participant works these out for itself, from the study and, with the paper's noise, from n: the number of all
records, which the first secure sum opens.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from masquerade_core.errors import BadInput
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian_tail_bound
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import check_steps
from masquerade_protocols.blocks.layouts import Layout, check_slots, layout_of
from masquerade_protocols.blocks.local_descent import (
    UNIT,
    DescentParameters,
    check_no_c,
    paper_sigma,
    proven_noise,
)

__all__ = ["Parameters", "Plan", "check", "layout", "noise_of", "parameters_of", "plan", "shown", "smallest_part"]

_QUARTER = 4  # if the study names no smallest part, it is an even share divided by this


class Parameters(DescentParameters):
    """The study's ``[protocol]`` section.

    ``smallest_part`` is a part of all records. A party with that part or more draws the noise for all of them. A party
    with less draws the noise of a run in which its records are that part, and the proof holds for it as well. The
    default is 1/(4K), a quarter of an even share.
    """

    weights: Literal["sizes", "uniform"] = "sizes"
    smallest_part: Annotated[
        float | None, Field(gt=0, le=1, description="the n_j/n below which a party adds more noise")
    ] = None


@dataclass(frozen=True)
class Plan:
    """A run's local descents once n is known; every participant computes the same plan.

    Parameters
    ----------
    T : int
        Rounds.
    eta : Fraction
        Learning rate.
    sigma : Fraction
        Standard deviation of a coordinate of the noise, on a mean of gradients or on a sum of them.
    on_mean : bool
        Whether the noise is on a mean, as the paper's is. The proven noise is on a sum.
    by_size : bool
        Whether a party's classifier counts n_j times, or once.
    divisor : int
        The sum of classifiers is divided by this: n, or the number of parties.
    """

    T: int
    eta: Fraction
    sigma: Fraction
    on_mean: bool
    by_size: bool
    divisor: int

    def sigma_at(self, n: int) -> Fraction:
        """Return the standard deviation of a coordinate of z_t, the noise on the mean gradient of n records."""
        return self.sigma if self.on_mean else self.sigma / n

    def reach(self, G: Fraction, d: int, weight: int, parties: int = 1) -> int:
        """Bound the sum of ``parties`` classifiers that count ``weight`` times together, in units of 2^-F.

        No step is longer than eta (G + noise), so |theta_T| is at most T such steps. The noise of one party stays
        within its bound, except with probability 2^-60. The penalty (Lambda/2) |theta|^2 only shortens theta.
        """
        noise = gaussian_tail_bound(self.sigma, self.T * d, UNIT) + 2
        times = weight if self.on_mean else parties  # noise on a sum stays the same however many records are in it
        return int(self.eta * self.T * (weight * G * UNIT + times * noise)) + weight


def parameters_of(study: Study) -> Parameters:
    """Return the study's ``[protocol]`` section."""
    return Parameters.model_validate(study.protocol)


def smallest_part(study: Study) -> Fraction:
    """Return the n_j/n below which a party adds more noise, where weights are "sizes" and the noise is the paper's."""
    named = parameters_of(study).smallest_part
    return Fraction(1, _QUARTER * study.K) if named is None else as_fraction(named)


def shown(part: Fraction) -> str:
    """Return a part of all records as text: 1/20, or 0.03."""
    return str(part) if part.numerator == 1 else f"{float(part):g}"


def noise_of(study: Study) -> SharedNoise:
    """Return the noise with which each local descent alone keeps the privacy target. BadInput: there is none."""
    return proven_noise(study, parameters_of(study).rounds)


def plan(study: Study, n: int) -> Plan:
    """Return the local descents' plan for n records; with "uniform" weights n plays no part.

    Raises
    ------
    BadInput
        No noise keeps the study's privacy target.
    """
    chosen = parameters_of(study)
    by_size = chosen.weights == "sizes"
    if study.proven:
        sigma = noise_of(study).share / UNIT
    else:
        sigma = paper_sigma(study, chosen, n if by_size else study.K * study.study.min_records)
    eta = as_fraction(chosen.learning_rate)
    return Plan(chosen.rounds, eta, sigma, not study.proven, by_size, n if by_size else study.K)


def check(study: Study) -> None:
    """Refuse a study that is known to fail, before anybody joins.

    With the paper's noise n sigma is the same for every n, and so is the noise in sum_j n_j theta^(j). The proven noise
    depends on no n. The gradients in the sum are largest at n = sum of max_records.

    Raises
    ------
    BadInput
        Steps diverge, parameters contradict each other, no noise keeps the privacy target, or a sum fits no plaintext.
    """
    chosen = parameters_of(study)
    check_steps(study, chosen.learning_rate)
    _check_together(study, chosen)
    for n in (study.K * study.study.min_records, study.most_records):
        layout(study, plan(study, n))


def _check_together(study: Study, chosen: Parameters) -> None:
    check_no_c(study, chosen)
    if study.proven and chosen.weights == "uniform":
        raise BadInput(
            '[protocol] weights is "uniform", but with calibration = "proven" most of the noise in a plain average '
            "would be that of the party with the fewest records, and would show how many records it has",
            'set weights = "sizes"',
        )
    part, noise_of_n = chosen.smallest_part, not study.proven and chosen.weights == "sizes"
    if part is not None and not noise_of_n:
        raise BadInput(
            f"[protocol] smallest_part is {part:g}, but this study's noise does not depend on the number of all "
            "records",
            "leave smallest_part out",
        )
    if part is not None and as_fraction(part) * study.K > 1:
        raise BadInput(
            f"[protocol] smallest_part is {part:g}, but of {study.K} parties one has 1/{study.K} of all records or "
            "less",
            f"choose at most 1/{study.K}, and much less if the parties have different numbers of records",
        )


def layout(study: Study, descent: Plan) -> Layout:
    """Lay out the sum of the parties' classifiers, each counted by its weight.

    Raises
    ------
    BadInput
        No slot of a plaintext is wide enough, or no float is large enough.
    """
    bound = descent.reach(loss_of(study.model.loss).L, study.d, descent.divisor, study.K)
    return check_slots(
        study,
        layout_of(study, study.d, bound),
        "the sum of classifiers",
        "fewer rounds",
        "a smaller learning_rate",
        "a larger epsilon",
    )
