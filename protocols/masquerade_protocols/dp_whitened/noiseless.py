"""The release of ``dp-whitened`` without noise. Whoever computes it sees all records."""

from collections.abc import Mapping
from typing import Any

from masquerade_core.data.pooling import pool
from masquerade_core.data.records import training_sides
from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.privacy.expectation import expected_of_sums
from masquerade_core.study import Study
from masquerade_protocols.blocks.clear_sums import ClearSide, finished
from masquerade_protocols.comparing import judged_by_scores
from masquerade_protocols.dp_whitened.public import Plan
from masquerade_protocols.dp_whitened.roles import learn
from masquerade_protocols.entry import Noiseless, Released

__all__ = ["clean_model", "noiseless"]


def clean_model(study: Study, data: Mapping[str, Dataset]) -> Model:
    """Return the classifier that follows from exact sums, with the same cuts and the same shrinkage as with noise."""
    together = pool(study, training_sides(study, data))
    plan = Plan(study, len(together.y))
    return finished(learn(ClearSide(plan, together), plan))


def noiseless(study: Study, data: Mapping[str, Dataset], released: Released, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the records' scores; where no record points, it does no harm."""
    clean, together = clean_model(study, data), pool(study, data)
    foreseen = expected_of_sums(study)
    return judged_by_scores(clean, "the same steps on exact sums", released, together, study.privacy.epsilon, foreseen)
