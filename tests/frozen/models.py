"""A seeded model of every protocol and baseline, in memory with short keys.

``python -m tests.frozen.models [NAME ...]`` writes those that are missing, and those that are named.

A change that moves code changes none of them. One that means to change a model also raises the protocol's number
(:mod:`tests.numbered`), and says so in the changelog.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from masquerade.simulation import simulate
from masquerade_protocols.registry import BASELINES, PROTOCOLS, entry_named
from tests.faulty import play
from tests.paper_data import study_of
from tests.protocol_helpers import make_data

__all__ = ["FILE", "NAMES", "model_of"]

FILE = Path(__file__).with_name("models.json")
NAMES = tuple(name for name in (*PROTOCOLS, *BASELINES) if entry_named(name).makes_model)
_SEED = 7
_SECTIONS = {"central-dp": "c = 16.0\nrounds = 3"}


def model_of(name: str) -> list[float]:
    """Return the weights of the model that a study of this protocol releases, and its offset where it has one."""
    if name in BASELINES:
        study = study_of(name, 3, 3, section=_SECTIONS.get(name, ""))
        model = simulate(study, make_data(study, (12, 15, 20)), seed=_SEED).model
    else:
        found = play(name)
        model = simulate(found.world.study, found.data, seed=_SEED, **found.options).model
    return [*model.weights, *model.offset]


def main() -> int:
    """Write the file; a model that is there stays, but for those that are named."""
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    models = {name: known[name] if name in known and name not in sys.argv[1:] else model_of(name) for name in NAMES}
    rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(model)}" for name, model in models.items())
    FILE.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
