"""Charlie's whole role, run again alone in a fresh process, as in a deployment.

``python -m benchmarks.alone`` reads from standard input all answers that Charlie got in a run, and runs his role from
its first step to its last: key check, layout, sigma*, descent and all rounds. Imports and the study's file come before
the measurement, and every cache of this program is cold. E is measured right before and right after, in the same
process.
"""

import importlib
import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from statistics import median
from typing import Never

from benchmarks.measure import KEY_BITS, Yardstick
from benchmarks.meter import ARITHMETIC, BOXES, Meter, MeteredRole, MeteredSeat, MeteredTable
from masquerade_core.seat import Effect, Join, Once
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Entry, replay
from masquerade_core.words import listed
from masquerade_protocols.blocks.secure_sum import charlie_sums
from masquerade_protocols.psgd import roles as psgd

__all__ = ["Alone", "charlie_alone"]

_PATIENCE = 240.0  # seconds


@dataclass(frozen=True)
class Alone:
    """CPU time of Charlie's role in a process of its own, in E.

    Attributes
    ----------
    arithmetic : float
        The whole role with its set-up, without codec, boxes and signatures, and without the meter's readings.
    meter : float
        The time that the meter's readings took.
    set_up : float
        The part of ``arithmetic`` before the first round.
    codec : float
        Codec and boxes.
    """

    arithmetic: float
    meter: float
    set_up: float
    codec: float


def charlie_alone(study: Study, table: MeteredTable, modulus: int) -> Alone:
    """Replay Charlie's role in a fresh process; E there is an encryption modulo the square of ``modulus``.

    Raises
    ------
    LocalProtocolError
        Charlie would ask for or send other bytes than in the run. The process ends with this error.
    """
    journal = [Entry(_to_travel(entry.effect), entry.answer) for entry in table.journal(CHARLIE)]
    data = pickle.dumps((modulus, study.to_toml(), table.names, journal))
    command = [sys.executable, "-m", "benchmarks.alone"]
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(  # noqa: S603  our own module
        command, input=data, capture_output=True, timeout=_PATIENCE, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, f"Charlie's replay failed: {done.stderr.decode()}"
    return Alone(**json.loads(done.stdout))


def _to_travel(effect: Effect) -> Effect:
    """Leave out what cannot be pickled: computations, whose results a replay takes from the journal."""
    match effect:
        case Once():
            return Once(effect.label, _never)
        case Join():
            return replace(effect, prove=_never)
        case _:
            return effect


def _never(*_: object, **__: object) -> Never:
    raise AssertionError("a replay draws nothing anew")


def _play(data: bytes) -> Alone:
    modulus, toml, names, journal = pickle.loads(data)  # noqa: S301  from the benchmark that started this process
    study, meter = Study.parse(toml, in_memory=True), Meter()
    seat = MeteredSeat(CHARLIE, names)
    seat.meter = meter
    yardstick = Yardstick(KEY_BITS, modulus)
    before = yardstick.take(5)
    importlib.import_module("scipy.special")  # else it would be loaded in the middle, as the sums would
    charlie_sums(study)
    there = set(sys.modules)
    replay(MeteredRole(psgd.charlie(seat, study), meter, CHARLIE), journal)
    late = sorted(set(sys.modules) - there)
    assert not late, f"imports were measured as arithmetic: {listed(late[:5])}"
    readings = meter.reading_seconds([CHARLIE], ARITHMETIC)
    e = median([*before, *yardstick.take(5)])
    return Alone(
        arithmetic=(meter.total(steps=ARITHMETIC) - readings) / e,
        meter=readings / e,
        set_up=meter.total_before("rounds", [CHARLIE], ARITHMETIC) / e,
        codec=meter.total(steps=(BOXES,)) / e,
    )


if __name__ == "__main__":
    alone = _play(sys.stdin.buffer.read())
    print(json.dumps(alone.__dict__))
