"""Public numbers of a ``summary`` run, from the study alone: the bins, the noise, and the slots of the one sum."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from masquerade_core.data.histograms import Grid
from masquerade_core.errors import BadInput
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.noise.histogram_counts import COUNT_BITS, histogram_noise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.study import Study
from masquerade_core.wire.codec import MAX_BODY
from masquerade_protocols.blocks.descent import TAIL_BITS
from masquerade_protocols.blocks.layouts import Layout, check_slots, layout_of

__all__ = ["COUNT_BITS", "Parameters", "check", "grid_of", "layout", "noise_of", "parameters_of"]

_REST = 4096  # bytes of a message for everything but the counts


class Parameters(BaseModel):
    """The study's ``[protocol]`` section. None of its values changes what the run costs in privacy."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    cells: Annotated[int, Field(ge=2, le=1000, description="into how many cells a public range is cut")] = 32
    low: Annotated[float, Field(gt=0, lt=1, description="the quantile of the next study's lower bounds")] = 0.02
    high: Annotated[float, Field(gt=0, lt=1, description="the quantile of the next study's upper bounds")] = 0.98
    suppress_below: Annotated[
        float, Field(ge=0, le=100, description="how many standard deviations of the noise a count must reach")
    ] = 3.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"[protocol] low is {self.low:g} and high is {self.high:g}; low must be smaller")
        return self


def parameters_of(study: Study) -> Parameters:
    """Return the study's choices."""
    return Parameters.model_validate(study.protocol)


def grid_of(study: Study) -> Grid:
    """Return the histograms of a study, which follow from its public ranges, levels and edges."""
    return Grid.from_study(study, parameters_of(study).cells)


def noise_of(study: Study) -> SharedNoise:
    """Return the noise with which a run meets the study's privacy target.

    Raises
    ------
    BadInput
        No noise meets it.
    """
    return histogram_noise(
        histograms=len(grid_of(study).histograms),
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
        retries=study.retries,
    )


def check(study: Study) -> None:
    """Refuse a study that must fail, before anybody joins.

    Raises
    ------
    BadInput
        No noise meets the privacy target, no plaintext holds the noise, or no message holds the counts.
    """
    slots = layout(study, noise_of(study))
    most = slots.most_in(MAX_BODY - _REST)
    if slots.length > most:
        raise BadInput(
            f"the histograms have {slots.length:,} bins in all, but a message holds the counts of at most {most:,}",
            "ask for fewer cells, or summarise fewer columns at a time",
        )


def layout(study: Study, noise: SharedNoise) -> Layout:
    """Lay out the one sum, for as many records as all parties may have together: nobody counts them beforehand.

    Noise goes beyond its slot with a chance of 2^-128 at most.

    Raises
    ------
    BadInput
        The slots are too wide for a plaintext, or a count for a float.
    """
    bins = len(grid_of(study))
    bound = study.most_records << COUNT_BITS
    bound += study.K * discrete_gaussian_tail_bound(noise.share, study.K * noise.releases * bins, TAIL_BITS)
    slots = layout_of(study, bins, bound)
    return check_slots(study, slots, "the sum of the histograms", "a larger epsilon")
