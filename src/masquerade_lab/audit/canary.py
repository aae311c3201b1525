"""Neighbouring data sets and studies for audits: small, public, and the same in every version.

All records but one lie where the last coordinate is 0. The canary is that coordinate's unit vector, labelled +1 in D
and -1 in D'. With the logistic loss a gradient at w then moves by sigma(-m) + sigma(m) = 1 in the last coordinate,
whatever w is. Two opposite records cannot move it more, and no other record has a gradient there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.schema import Dataset
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Feature, Study
from masquerade_lab.audit.audit import Audit, Gate, Scores
from masquerade_protocols import entry_named

__all__ = ["FLAT", "flat", "others", "proof", "proven", "study_of"]

FLAT = "a unit vector along which no other record lies, labelled +1 or -1"

_Array = NDArray[np.float64]


def others(n: int, d: int, seed: int = 1) -> tuple[_Array, _Array]:
    """Return n records on a sphere whose last coordinate is 0, and labels that follow the first, mostly."""
    rng = SimulationRng(seed, f"audit records {n} {d}")
    raw = np.frombuffer(rng.bytes(8 * n * d), dtype="<u8").reshape(n, d) / 2.0**63 - 1.0
    X = raw.copy()
    X[:, -1] = 0.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    y = np.where(X[:, 0] + 0.5 * raw[:, -1] > 0, 1.0, -1.0)
    return X, y


def flat(n: int, d: int, *, moved: bool) -> Dataset:
    """Return n records in R^d, the canary last: D, or D' if ``moved``."""
    X, y = others(n - 1, d)
    canary = np.zeros((1, d))
    canary[0, -1] = 1.0
    return Dataset.from_unit_ball(np.concatenate([X, canary]), np.append(y, -1.0 if moved else 1.0))


def study_of(
    protocol: str,
    *,
    parties: int,
    d: int,
    epsilon: float,
    delta: float,
    regularization: float = 0.1,
    section: Mapping[str, object] | None = None,
    **more: object,
) -> Study:
    """Return a study for the in-memory table, with keys of 512 bits and records of d coordinates.

    Parameters
    ----------
    section : mapping
        Values of the ``[protocol]`` section that take the place of its defaults.
    more
        Further fields of :class:`~masquerade.draft.Draft`.
    """
    names: Sequence[str] = [f"party-{k}" for k in range(1, parties + 1)]
    fields = {"min_records": 10, "key_bits": 512, "calibration": entry_named(protocol).calibrations[0], **more}
    fields.setdefault("colluders", 0)
    draft = Draft(
        parties=[(name, throwaway_key()) for name in names],
        curator_key=throwaway_key(),
        protocol=protocol,
        features=[Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(1, d + 1)],
        epsilon=epsilon,
        delta=delta,
        regularization=regularization,
        intercept=False,
        **fields,  # type: ignore[arg-type]
    )
    text = draft.to_toml()
    for key, value in (section or {}).items():
        text, found = re.subn(rf"^{key} = .*$", f"{key} = {json.dumps(value)}", text, flags=re.MULTILINE)
        if found != 1:
            msg = f"the section of {protocol} has {found} lines with {key}"
            raise ValueError(msg)
    return Study.parse(text, "an audit's study", in_memory=True)


def proven(protocol: str, *, d: int = 2, delta: float = 0.05, colluders: int = 0, **more: Any) -> Study:
    """Return a study of five parties with proven noise for epsilon = 1; ``more`` as for :func:`study_of`."""
    return study_of(
        protocol, parties=5, d=d, epsilon=1.0, delta=delta, calibration="proven", colluders=colluders, **more
    )


def proof(name: str, study: Study, scores: Scores, *, adversary: str, **more: object) -> Audit:
    """Return the audit of a study's privacy target, which its calibration proves; ``more`` are fields of it."""
    fields = {"canary": FLAT, "runs": 4000, "quick": 2000} | more
    return Audit(
        name=name,
        protocol=study.study.protocol,
        gate=Gate.HOLDS,
        adversary=adversary,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        scores=scores,
        proved=study.privacy.epsilon,
        **fields,  # type: ignore[arg-type]
    )
