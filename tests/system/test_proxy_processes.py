"""A run in which one site goes out through a proxy, and one whose proxy does not let it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.study import CHARLIE
from tests.messages import says
from tests.processes import Machines
from tests.unit.host.transport.test_proxy import TinyProxy


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """A study of three parties."""
    machines = Machines.new(tmp_path)
    yield machines
    machines.close()


@pytest.mark.alone
def test_a_party_behind_a_proxy_takes_part_and_its_password_is_on_no_command_line(machines: Machines) -> None:
    tiny = TinyProxy("http")
    processes = machines.start_all(CHARLIE, "p2", "p3")
    way_out = f"http://me:secret@127.0.0.1:{tiny.proxy().port}"
    processes["p1"] = machines.start("p1", env={"MASQUERADE_PROXY": way_out})
    ended = {name: process.end() for name, process in processes.items()}
    assert {name: e.code for name, e in ended.items()} == dict.fromkeys(processes, 0), ended
    assert len(tiny.asked) == 1
    assert b"Proxy-Authorization: Basic" in tiny.asked[0]
    tiny.close()


def test_a_party_whose_proxy_says_no_is_told_so(machines: Machines) -> None:
    tiny = TinyProxy("http", b"HTTP/1.1 403 Forbidden\r\n\r\n")
    ended = machines.start("p1", "--proxy", f"http://127.0.0.1:{tiny.proxy().port}").end()
    assert (ended.code, says(ended.error["message"], "proxy_refuses")) == (2, True)
    tiny.close()
