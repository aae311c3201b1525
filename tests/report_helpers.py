"""Folders of finished runs for the pages: real protocols over real sockets, in this process and in a second or two."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Covariates, Dataset
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.approving import approval_given
from masquerade_host.store.results import RunDirectory, summarize
from masquerade_protocols import protocol_of
from tests.host_helpers import World, free_port, new_keys, run_together

NAMES = ("north", "south", "west")
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'

_STUDY = """
[study]
name = "ward"
protocol = "{protocol}"
min_parties = 3
min_records = 40
deadline_seconds = 120.0
nonce = "0123456789abcdef"
purpose = 'which patients come to the ward again within thirty days {mark}'
legal_basis = 'consent {mark}'
ethics_number = '2026-123 {mark}'
contact = 'a.coordinator@example.org {mark}'
{lead}
[privacy]
epsilon = 1.0
delta = 1e-6
calibration = "proven"
colluders = 1
[model]
regularization = 0.01
[crypto]
{crypto}
[protocol]
{section}
{evaluation}
[label]
name = "outcome"
positive = 'ill {mark}'
[[feature]]
name = 'age {mark}'
min = 0.0
max = 100.0
[[feature]]
name = "smoker"
levels = ["yes", 'no {mark}']
[[feature]]
name = "pressure"
edges = [90.0, 140.0]
[curator]
address = "tcp://127.0.0.1:{port}"
key = "{curator}"
"""
_POINTS = Auxiliary.from_unit_ball(np.random.default_rng(7).uniform(-0.4, 0.4, size=(30, 7)))
_FILE = f'file = "points.csv"\nsha256 = "{_POINTS.digest.hex()}"\nrecords = 30'
_SECTIONS = {
    "dp-gd": "rounds = 6",
    "dp-whitened": "",
    "dp-glm": 'family = "logistic"',
    "local-aggregation": 'scale = "floor"',
    "vote": f'ties = "first"\n[protocol.auxiliary]\n{_FILE}',
}


def make_world(protocol: str, mark: str = "", *, port: int | None = None) -> World:
    """Write a study of three parties, with fresh keys. A mark is a part of every name that a study leaves free."""
    keys = {name: new_keys() for name in (*NAMES, CHARLIE)}
    masks = protocol.startswith("dp-")
    text = _STUDY.format(
        protocol=protocol,
        mark=mark,
        lead="" if masks else 'lead = "north"',
        crypto='sum = "masks"' if masks else "key_bits = 512",
        section=_SECTIONS[protocol],
        evaluation="[evaluation]\nshare = 0.25" if masks else "",
        port=free_port() if port is None else port,
        curator=keys[CHARLIE].public,
    )
    text += "".join(f'[[party]]\nname = "{name}"\nkey = "{keys[name].public}"\n' for name in NAMES)
    return World(Study.parse(text, in_memory=True), keys)


def _records(study: Study, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    if study.study.protocol == "dp-glm":  # it needs thousands
        covariates = np.column_stack([rng.uniform(-1, 1, size=4000), rng.integers(2, size=(4000, 3))]).astype(float)
        odds = np.exp(covariates @ [1.0, -0.5, 0.5, 0.25])
        return Covariates(covariates, np.where(rng.uniform(size=4000) < odds / (1 + odds), 1.0, -1.0))
    X = rng.uniform(-0.4, 0.4, size=(80, study.d))
    return Dataset(X, np.where(X @ np.arange(study.d) > 0, 1.0, -1.0))


def run_to(root: Path, protocol: str, mark: str = "") -> Path:
    """Run a protocol, and let each participant write a folder into ``root``."""
    world = make_world(protocol, mark)
    study, entry = world.study, protocol_of(world.study)
    shared: dict[str, Any] = {"auxiliary": _POINTS} if entry.auxiliary else {}
    sessions: dict[str, Any] = {CHARLIE: world.charlie(version=entry.version)}
    sessions |= {name: world.party(name, version=entry.version) for name in study.names}
    places = {name: RunDirectory(root / name, session) for name, session in sessions.items()}
    for place in places.values():
        place.__enter__()

    def role(name: str) -> Any:
        if name == CHARLIE:
            return lambda seat: entry.charlie(seat, study, **shared)
        return lambda seat: entry.party(seat, study, _records(study, NAMES.index(name)), **shared)

    outcome = run_together(sessions, {name: role(name) for name in sessions})
    assert not outcome.errors, outcome.errors
    statement = [claim.to_json() for claim in entry.statement(study)]
    for name, place in places.items():
        release, session = outcome.results[name], sessions[name]
        more: dict[str, Any] = {}
        if name != CHARLIE:
            approval = approval_given(study, name, f"patients {mark}", f"Dr. A. Steward {mark}", counted=False)
            more = {"approval": approval.model_dump(), "ledger": _ledger(mark)}
        place.record(release.files(study, session.run), summarize(session, statement, {}, release), **more)
    return root


def _ledger(mark: str) -> dict[str, Any]:
    at, cost = "2026-05-03T12:00:00+00:00", [10**11, 10**10, 10**11, 0]
    rows = [{"n": n, "at": at, "kind": "debit", "cost": cost, "label": f"round {n} {mark}"} for n in (3, 4, 5)]
    return {"entries": [{"n": 2, "at": at, "kind": "attempt", "number": 1}, *rows]}


class Read(HTMLParser):
    """A page as a program reads it: its numbers, its tags with their attributes, its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.numbers: dict[str, Any] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, and the value of a number."""
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag == "data":
            value = str(found["value"])
            try:
                self.numbers[str(found["data-field"])] = json.loads(value)
            except ValueError:
                self.numbers[str(found["data-field"])] = value

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.text += data


def field_of(result: Any, path: str) -> Any:
    """Return a field of a result by its path, such as ``stages.0.seconds``."""
    for key in path.split("."):
        result = result[int(key)] if isinstance(result, list) else result[key]
    return result
