"""Charlie and an insider who announces another party's box key, in a default summary between four real processes.

The functions at the top run in the processes whose programs are changed: the insider's and Charlie's. In the
control all have programs from which names and proofs are taken out.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from masquerade_core.crypto import pair_keys
from masquerade_core.crypto.pair_keys import BoxKey, End
from masquerade_core.seat import Join, Receive
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Frame
from masquerade_host.session import messages
from masquerade_host.session.admission import Admission
from masquerade_host.session.hop import Hop
from masquerade_host.session.party import PartySession
from masquerade_host.session.session import Session
from masquerade_protocols.blocks.layouts import as_words
from masquerade_protocols.blocks.masked_sum import Masked, MaskedPartySums
from masquerade_protocols.summary import public
from masquerade_protocols.summary.roles import noise_of
from tests.processes import Machines, Participant
from tests.summary_helpers import as_summary

KEY, READ = Path("key-of-p1"), Path("masked-of-p2")  # in the folder in which all processes run
_HERE = "from tests.system import test_copied_keys as changes; [getattr(changes, name)() for name in {!r}]"


# --- What runs in the processes whose programs are changed -----------------------


def announce_another_key() -> None:
    """The insider announces the key that Charlie has given it; without him, one that is not its own either."""
    join = PartySession._join

    def copying(session: PartySession, effect: Join) -> None:
        until = time.monotonic() + 5.0
        while not KEY.exists() and time.monotonic() < until:
            time.sleep(0.05)
        key = KEY.read_bytes() if KEY.exists() else BoxKey(b"somebody else's".ljust(32)).public
        join(session, dataclasses.replace(effect, box_key=key))

    async def listen(_seat: object, _study: object) -> None:
        await Receive("message", "Summed", (CHARLIE,))

    PartySession._join = copying  # type: ignore[method-assign,assignment]
    MaskedPartySums.set_up = listen  # type: ignore[method-assign,assignment]


def collude() -> None:
    """Charlie gives p1's key away, admits whoever comes, and keeps what p2 contributes."""
    came, deliver = Admission.came, Session._deliver

    def giving(admission: Admission, hop: Hop) -> None:
        if hop.name == "p1":
            KEY.with_suffix(".new").write_bytes(hop.box_key)
            KEY.with_suffix(".new").rename(KEY)
        came(admission, hop)

    def keeping(session: Session, frame: Frame) -> None:
        if (frame.source, frame.type) == ("p2", "Masked"):
            READ.with_suffix(".new").write_bytes(frame.body)
            READ.with_suffix(".new").rename(READ)
        deliver(session, frame)

    Admission.came = giving  # type: ignore[method-assign,assignment]
    Admission._fault_in = lambda *_: None  # type: ignore[method-assign]
    Session._deliver = keeping  # type: ignore[method-assign,assignment]


def forget() -> None:
    """The control: keys without names, and no proofs, as it was."""
    whole, nobody = pair_keys._expand, (End("", b""), End("", b""))
    pair_keys._expand = lambda made, purpose, _, *rest: whole(made, purpose, nobody, *rest)
    for name in ("check_owned", "check_distinct"):
        setattr(messages, name, lambda *_: None)


# --- The tests -------------------------------------------------------------------


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Three parties, and a study of their columns by masks, the default."""
    made = Machines.new(tmp_path)
    text = re.sub(r"(?m)^(lead|key_bits) = .*\n", "", as_summary(made.study).to_toml())
    made.study = Study.parse(text.replace('sum = "paillier"', 'sum = "masks"'))
    made.write_study()
    yield made
    made.close()


def changed(machines: Machines, **programs: tuple[str, ...]) -> dict[str, Participant]:
    """Start everybody, these with changed programs."""
    names = (CHARLIE, *machines.study.names)
    return {n: machines.start(n, changed=_HERE.format(programs[n]) if n in programs else "") for n in names}


@pytest.mark.parametrize("charlie", ["honest", "colluding"])
def test_an_insider_with_anothers_key_is_named_alone_before_anything_leaves(machines: Machines, charlie: str) -> None:
    programs = {"p3": ("announce_another_key",), CHARLIE: ("collude",)}
    started = changed(machines, **{name: programs[name] for name in ("p3", CHARLIE)[: 1 + (charlie == "colluding")]})
    for name in ("p1", "p2", *([CHARLIE] if charlie == "honest" else [])):
        ended = started[name].end()
        assert ended.code == 8, ended
        assert (ended.error["peer"], ended.error["grounds"]) == ("p3", "checked here")
        assert "suspects" not in ended.error
    assert KEY.name in {path.name for path in machines.folder.iterdir()} or charlie == "honest"
    assert not (machines.folder / READ).exists()


def test_without_names_and_proofs_charlie_reads_what_the_party_between_contributes(machines: Machines) -> None:
    """The control: p2 adds and subtracts one mask, and its histograms leave under its own share of noise alone."""
    honest = ("forget",)
    changed(machines, p1=honest, p2=honest, p3=("forget", "announce_another_key"), charlie=("forget", "collude"))
    until = time.monotonic() + 120.0
    while not (machines.folder / READ).exists() and time.monotonic() < until:
        time.sleep(0.05)
    study = machines.study
    noise = noise_of(study)
    words = as_words(public.layout(study, noise))
    raw = words.read(decode(Masked, (machines.folder / READ).read_bytes(), "p2").words)
    assert raw[: words.marks].tolist() == [1] * words.marks
    rows = [row.split(",") for row in (machines.folder / "p2.csv").read_text().splitlines()[1:]]
    counts = public.grid_of(study).place({"x": [x for x, _ in rows], "y": [y for _, y in rows]}).counts()
    read = words.signed(raw) / 2**public.COUNT_BITS
    sd = float(noise.share) / 2**public.COUNT_BITS
    assert np.abs(read - np.array(counts)).max() < 8 * sd
