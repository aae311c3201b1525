"""The release of ``dp-glm`` without noise. Whoever computes it sees all records."""

from collections.abc import Mapping
from typing import Any

from masquerade_core.data.pooling import pool
from masquerade_core.data.records import training_sides
from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.study import Study
from masquerade_protocols.blocks.clear_sums import ClearSide, finished
from masquerade_protocols.comparing import judged_by_scores
from masquerade_protocols.dp_glm.expected import expected
from masquerade_protocols.dp_glm.public import Plan
from masquerade_protocols.dp_glm.roles import learn
from masquerade_protocols.entry import Noiseless, Released

__all__ = ["clean_model", "noiseless"]


def clean_model(study: Study, data: Mapping[str, Dataset]) -> Model:
    """Return the model that follows from exact sums, with the same weights and steps as with noise."""
    together = pool(study, training_sides(study, data))
    plan = Plan(study, len(together.y))
    return finished(learn(ClearSide(plan, together), plan))


def noiseless(study: Study, data: Mapping[str, Dataset], released: Released, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the records' scores."""
    clean = clean_model(study, data)
    if not any(clean.weights):
        return Noiseless(clean, "the same steps on exact sums", 0.0, None, _why_nothing(clean))
    together, epsilon, foreseen = pool(study, data), study.privacy.epsilon, expected(study)
    return judged_by_scores(clean, "the same steps on exact sums", released, together, epsilon, foreseen)


def _why_nothing(clean: Model) -> str:
    """Return why no slope can be told whatever the noise is, or why no noisy sum was opened."""
    found = clean.coefficients
    if found is None or not found.means:  # no sum was opened
        return "Nothing can be told of so few records beside so much noise, so no noisy sum was opened."
    return f"Without noise nothing can be told either: {found.refused or found.rows[1].reason}."
