"""evaluation: how good a model that exists is on the parties' records. It learns nothing, and it is a release.

The study holds the model: its weights stand in ``[protocol]``, so everybody approves them. For K parties::

    party P_k                                                           Charlie
      | draw a share of noise for each number                             |
      |============ join: everybody's box key of this run, signed ========|
      |~~~ GroupKey: the parties' key for check values ~~~~~~~~~~~~~~~~~~~|   K - 1 boxes
      |     1. one secure sum: N = sum of n_k; no n_k is seen             |
      |     2. one secure sum: records in each of 256 cells of scores, with noise
      |     3. one secure sum: records of each label in each bin, with noise
      |     (named classes: one sum for both, the confusion matrix)       |
      | the evaluation, by everybody alike                                |

It is what a run with ``[evaluation]`` does after its training, for all records instead of a part
(:mod:`masquerade_protocols.blocks.evaluation`). But records that the model was learned from have paid for that already.
So the epsilon of this run adds to what they paid.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from masquerade_core.data.records import Records
from masquerade_core.errors import BadInput
from masquerade_core.model import Model
from masquerade_core.seat import Seat
from masquerade_core.study import Study, threshold_rule
from masquerade_protocols.blocks.descent import join_and_count, relay_and_count
from masquerade_protocols.blocks.evaluation import (
    HeldBack,
    draw_share,
    evaluation_layouts,
    measured,
    measured_by_all,
)

__all__ = ["Measured", "Parameters", "charlie", "check", "model_of", "party"]

_Real = Annotated[float, Field(allow_inf_nan=False)]


class Parameters(BaseModel):
    """The study's ``[protocol]`` section: the model, and how a threshold is chosen for it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    weights: Annotated[tuple[_Real, ...], Field(strict=False, description="the model's weights, a number for each")]
    offset: Annotated[tuple[_Real, ...], Field(strict=False)] = ()
    threshold: _Real = 0.0
    model_run: Annotated[str, Field(pattern=r"\A[0-9a-f]{0,64}\z")] = ""
    choose: str | float | None = None

    _choose = field_validator("choose", mode="before")(threshold_rule)


@dataclass(frozen=True)
class Measured(Model):
    """A model with its evaluation, of which the evaluation alone is new."""

    def files(self, study: Study, run: bytes) -> dict[str, dict[str, Any] | str]:
        """Return the file that publishes the evaluation."""
        if self.evaluation is None:
            return {}
        return {"evaluation.json": {"study": study.study.name, "run_id": run.hex(), **self.evaluation.to_json()}}


def _parameters_of(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def model_of(study: Study) -> Measured:
    """Return the model that the study holds."""
    chosen = _parameters_of(study)
    return Measured(chosen.weights, None, chosen.offset, chosen.threshold)


def check(study: Study) -> None:
    """Refuse a study that must fail, before anybody joins.

    Raises
    ------
    BadInput
        The model does not fit the study's columns, or no noise meets the privacy target.
    """
    chosen, wanted = _parameters_of(study), study.d * study.outputs
    if len(chosen.weights) != wanted or len(chosen.offset) not in {0, study.outputs}:
        raise BadInput(
            f"[protocol] weights has {len(chosen.weights)} numbers and offset {len(chosen.offset)}, but the study's "
            f"records and classes need {wanted} weights, and {study.outputs} or none as offset",
            "make the study with 'masquerade study new --measure MODEL', which takes columns and weights from one file",
        )
    if study.multiclass and (chosen.threshold or chosen.choose is not None):
        raise BadInput("[protocol] has a threshold, but the label has named classes", "leave threshold and choose out")
    evaluation_layouts(study, study.most_records)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Records) -> Model:
    """Party P_k, the lead included.

    Raises
    ------
    ProtocolViolation
        Another participant is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    noise = await draw_share(seat, study)  # before the join: afterwards, the time for it would tell of the noise
    sums, N = await join_and_count(seat, study, data)
    return await measured(sums, N, HeldBack(data, data, noise), model_of(study), _parameters_of(study).choose)


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie: he sees K ciphertexts and one sum each time, and computes the evaluation as everybody does.

    Raises
    ------
    ProtocolViolation
        A party is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    sums, N = await relay_and_count(seat, study)
    return await measured_by_all(sums, N, model_of(study), _parameters_of(study).choose)
