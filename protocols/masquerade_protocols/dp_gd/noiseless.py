"""The release of ``dp-gd`` without noise. Whoever computes it sees all records."""

from collections.abc import Mapping
from typing import Any

from masquerade_core.data.pooling import pool
from masquerade_core.data.records import training_sides
from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.expectation import expected_of_sums
from masquerade_core.study import Study
from masquerade_protocols.comparing import judged_by_scores, model_of
from masquerade_protocols.dp_gd.roles import Descent
from masquerade_protocols.dp_gd.schedule import rounds_of
from masquerade_protocols.entry import Noiseless, Released, Weights

__all__ = ["clean_descent", "noiseless"]


def clean_descent(study: Study, data: Mapping[str, Dataset]) -> Weights:
    """Return the last iterate on exact sums of clipped gradients; shape (d,)."""
    together = pool(study, training_sides(study, data))
    descent = Descent(study, len(together.y))
    for _ in range(rounds_of(study)):
        descent.step(descent.gradient(together))
    return descent.iterate


def noiseless(study: Study, data: Mapping[str, Dataset], released: Released, **_unused: Any) -> Noiseless:
    """Judge the noise by how far it moved the records' scores w.x; where no record points, it does no harm."""
    clean = model_of(clean_descent(study, data))
    together, epsilon, foreseen = pool(study, data), study.privacy.epsilon, expected_of_sums(study)
    return judged_by_scores(clean, "the same steps on exact sums", released, together, epsilon, foreseen)
