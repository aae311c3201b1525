"""A demonstration stands in for a site's people: it gives their records a budget, and approves its own study.

Nothing else in this program says yes for a person. The state folder is one that the demonstration has just made.
"""

from pathlib import Path

from masquerade_core.data.examining import examine
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS
from masquerade_core.study import Study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from masquerade_party import approve
from masquerade_protocols import protocol_of

__all__ = ["stand_in"]

_EPSILON, _DELTA = 10.0, 1e-5
"""A budget as a site may have; a study that takes more gets one that just suffices."""


def stand_in(study: Study, study_path: Path, key_path: Path, data_path: Path, state: Path, by: str) -> None:
    """Make a party's budget in a state folder of its own, and approve the study there.

    What looks like a mistake in the party's records is accepted: a demonstration deals its records out, so a party may
    have one label alone.

    Parameters
    ----------
    study : Study
    study_path, key_path, data_path : Path
        The study, a party's secret keys and its records.
    state : Path
        The party's state folder. If it has a budget already, as after a container's restart, that one counts.
    by : str
        Who approves, for the record.
    """
    protocol = protocol_of(study)
    folder, takes = StateFolder(state), protocol.spends(study)
    found = examine(data_path, study, counts=protocol.records.grid_of is not None)
    if not folder.ledger.exists():
        epsilon, delta = max(_EPSILON, takes.epsilon / UNITS), max(_DELTA, takes.delta / DELTA_UNITS)
        give_budget(folder.made(), DEFAULT_POPULATION, epsilon, delta, by=by).close()
    approve(
        study_path,
        key_path=key_path,
        data_path=data_path,
        state=state,
        by=by,
        fingerprint=study.fingerprint(),
        accept=tuple(dict.fromkeys(doubt.column for doubt in found.doubts)),
        tell=lambda _words: None,
    )
