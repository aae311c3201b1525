"""Studies of ``summary``, records for them, and their histograms counted a second time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.histograms import Cells
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Feature, Label, Study
from masquerade_core.table import Table
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.summary import public, roles

AGE = Feature(name="age", min=0.0, max=120.0)
SEX = Feature(name="sex", levels=("f", "m", "x"))
BMI = Feature(name="bmi", edges=(18.5, 25.0, 30.0))
LABEL = Label(name="ill", positive="yes")


def summary_study(
    K: int = 3,
    features: Sequence[Feature] = (AGE, SEX, BMI),
    label: Label = LABEL,
    *,
    key_bits: int = 512,
    epsilon: float = 1.0,
    **more: Any,
) -> Study:
    """A study of the columns, with a key of 512 bits; capitals count unless ``matching`` says otherwise."""
    matching = more.pop("matching", "exact")
    section: dict[str, float] = {
        key: more.pop(key) for key in ("cells", "low", "high", "suppress_below") if key in more
    }
    draft = Draft(
        parties=[(f"p{k}", throwaway_key()) for k in range(1, K + 1)],
        curator_key=throwaway_key(),
        protocol="summary",
        features=features,
        label=label,
        parameters=section,
        epsilon=epsilon,
        min_records=10,
        key_bits=key_bits,
        **{"colluders": 0, **more},
    )
    return Study.parse(draft.to_toml().replace('matching = "loose"', f'matching = "{matching}"'), in_memory=True)


def patients(n: int, seed: int = 0) -> dict[str, list[str]]:
    """Columns as a file holds them: cells out of range, unknown levels and missing ones among them."""
    rng = np.random.default_rng(seed)
    ages = [f"{age:.1f}" for age in rng.normal(50, 15, n)]
    ages[:4] = ["-3", "121", "", "old"]
    sexes = [str(s) for s in rng.choice(["f", "m"], n)]
    sexes[:3] = ["?", "F", "x"]
    bmis = [f"{bmi:.2f}" for bmi in rng.normal(26, 4, n)]
    bmis[:3] = ["nan", "25.0", "inf"]
    ill = [str(y) for y in rng.choice(["yes", "no"], n, p=[0.3, 0.7])]
    ill[:2] = ["", "perhaps"]
    return {"age": ages, "sex": sexes, "bmi": bmis, "ill": ill}


def dealt(study: Study, sizes: Sequence[int]) -> dict[str, Cells]:
    """Everybody's records."""
    grid = public.grid_of(study)
    return {name: grid.place(patients(n, seed)) for seed, (name, n) in enumerate(zip(study.names, sizes, strict=True))}


def run_summary(study: Study, data: Mapping[str, Cells], seed: int = 1) -> tuple[dict[str, Any], Table]:
    """Run the roles at the in-memory table."""
    table = Table(study.names, {who: SimulationRng(seed, who) for who in (*study.names, CHARLIE)})
    return run_in_memory(roles, study, data, table=table), table


def as_summary(study: Study, **section: float) -> Study:
    """The same study, of its columns in place of a model."""
    return study.model_copy(
        update={
            "study": study.study.model_copy(update={"protocol": "summary"}),
            "privacy": study.privacy.model_copy(update={"calibration": "proven", "delta": 1e-6}),
            "protocol": section,
        }
    )
