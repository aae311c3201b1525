"""Helpers for tests of exported models: models that nobody learned, and records with everything that a study allows."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Encoder
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature, Label, Study

Columns = dict[str, NDArray[Any]]


def model_of(
    features: Sequence[Feature],
    *,
    classes: tuple[str, ...] | None = None,
    intercept: bool = True,
    rule: Any = "clamp",
    loss: str = "logistic",
    label: str = "ill",
    threshold: float = 0.0,
    offsets: bool = False,
    seed: int = 0,
) -> SavedModel:
    """Return a model with weights that were drawn."""
    rng = np.random.default_rng(seed)
    encoder = Encoder(tuple(features), intercept, rule)
    rows = len(classes or ("",))
    return SavedModel(
        weights=tuple((3 * rng.normal(size=encoder.d * rows)).tolist()),
        shares=None,
        encoder=encoder,
        label=Label(name=label, classes=classes) if classes else Label(name=label, positive="yes"),
        study="s",
        protocol="dp-whitened",
        run_id="ab" * 16,
        epsilon=1.0,
        delta=1e-6,
        loss=loss,
        threshold=threshold,
        offset=tuple(rng.normal(size=rows).tolist()) if offsets else (),
    )


def model_for(study: Study, seed: int = 0) -> SavedModel:
    """Return a model with drawn weights that a study could have made."""
    rng = np.random.default_rng(seed)
    weights = 3 * rng.normal(size=study.d * len(study.label.classes or ("",)))
    return SavedModel(
        tuple(weights.tolist()), None, Encoder.from_study(study), study.label, study.study.name, study.study.protocol,
        "cd" * 16, study.privacy.epsilon, study.privacy.delta, study.model.loss,
    )  # fmt: skip


def records_for(encoder: Encoder, n: int, seed: int = 0) -> Columns:
    """Return raw records: at bounds, on edges and between, and with all other cells that the study's rule allows."""
    rng = np.random.default_rng(seed)
    clamps = encoder.out_of_bounds == "clamp"
    found: Columns = {}
    for f in encoder.features:
        misses = clamps or f.missing is not None
        if f.levels is not None:
            texts = [*f.levels, *(["no such level", "NA"] if clamps else []), *(["", "nan"] if misses else [])]
            found[f.name] = np.array(rng.choice(np.array(texts, dtype=object), n), dtype=object)
            continue
        numbers = [*(f.edges or ())]
        numbers += [math.nextafter(x, -math.inf) for x in numbers if x > (f.min or -math.inf)]
        if f.min is not None and f.max is not None:
            numbers += [f.min, f.max, *rng.uniform(f.min, f.max, 50)]
            numbers += [f.min - 1.5, f.max + 1e7] if clamps else []
        else:
            numbers += [numbers[0] - 3.25, *(numbers[0] + 10 * rng.uniform(size=20))]
        found[f.name] = rng.choice([*numbers, *([math.nan] if misses else [])], n)
    return found
