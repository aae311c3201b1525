"""Three machines: the steps of the pages for a coordinator and for a site, each in a network namespace of its own.

The coordinator's machine accepts connections; both sites refuse every incoming one. Nothing is shared but what the
pages have people exchange: public keys, fingerprints and one study file.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.terminals import Screen

HOSTS = {"coordinator": "10.77.0.1", "site-a": "10.77.0.2", "site-b": "10.77.0.3"}
PORT = 5555

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"),
        reason="network namespaces need root, iproute2 and iptables",
    ),
]


def _sh(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


class Machine:
    """One machine: a namespace, an address and a folder that no other machine sees."""

    def __init__(self, name: str, namespace: str, folder: Path) -> None:
        self.name, self.namespace, self.folder = name, namespace, folder
        folder.mkdir()

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *words]

    @property
    def _env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "COLUMNS": "120"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command on this machine."""
        return subprocess.Popen(
            self._command(words),
            cwd=self.folder,
            env=self._env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def at_terminal(self, *words: str) -> Screen:
        """Start ``masquerade`` at a terminal of this machine."""
        return Screen.of(self.folder, *self._command((sys.executable, "-m", "masquerade", *words)), env=self._env)

    def masquerade(self, *words: str) -> subprocess.Popen[str]:
        """Start ``masquerade`` on this machine."""
        return self.start(sys.executable, "-m", "masquerade", *words)

    def run(self, *words: str) -> Any:
        """Run ``masquerade ... --format json`` on this machine and return its data."""
        process = self.masquerade(*words, "--format", "json")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return json.loads(out)["data"]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """Lay a switch and three machines on it; the sites' firewalls let nothing in but answers."""
    tag = f"mq{os.getpid() % 10000}"
    switch = f"{tag}-sw"
    made = {name: Machine(name, f"{tag}-{i}", tmp_path / name) for i, name in enumerate(HOSTS)}
    _sh("ip", "netns", "add", switch)
    try:
        _sh("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _sh("ip", "-n", switch, "link", "set", "br0", "up")
        for i, machine in enumerate(made.values()):
            ns = machine.namespace
            _sh("ip", "netns", "add", ns)
            _sh("ip", "-n", switch, "link", "add", f"v{i}", "type", "veth", "peer", "name", "eth0", "netns", ns)
            _sh("ip", "-n", switch, "link", "set", f"v{i}", "master", "br0", "up")
            _sh("ip", "-n", ns, "addr", "add", f"{HOSTS[machine.name]}/24", "dev", "eth0")
            _sh("ip", "-n", ns, "link", "set", "eth0", "up")
            _sh("ip", "-n", ns, "link", "set", "lo", "up")
            if machine.name != "coordinator":
                firewall = ("ip", "netns", "exec", ns, "iptables")
                _sh(
                    *firewall,
                    "-A",
                    "INPUT",
                    "-i",
                    "eth0",
                    "-m",
                    "conntrack",
                    "--ctstate",
                    "ESTABLISHED",
                    "-j",
                    "ACCEPT",
                )
                _sh(*firewall, "-A", "INPUT", "-i", "eth0", "-j", "REJECT")
        yield made
    finally:
        for machine in made.values():
            subprocess.run(["ip", "netns", "del", machine.namespace], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", switch], check=False, capture_output=True)


CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2).close()"
LISTEN = (
    "import socket; s = socket.create_server(('0.0.0.0', 5999)); print('up', flush=True); s.settimeout(20); s.accept()"
)


def _reaches(machine: Machine, host: str, port: int) -> bool:
    process = machine.start(sys.executable, "-c", CONNECT, HOSTS[host], str(port))
    process.communicate(timeout=20)
    return process.returncode == 0


def _records(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "sex", "marker", "relapse"])
        for _ in range(n):
            age, marker, sex = rng.uniform(20, 90), rng.uniform(0, 5), rng.choice(["f", "m"])
            rows.writerow([f"{age:.1f}", sex, f"{marker:.3f}", "yes" if marker + age / 40 + rng.normal() > 4 else "no"])


@pytest.mark.parametrize("calibration", ["proven", "paper"])
def test_two_sites_and_a_coordinator_on_three_machines(machines: dict[str, Machine], calibration: str) -> None:
    coordinator, site_a, site_b = machines.values()
    for seed, site in enumerate((site_a, site_b)):
        _records(site.folder / "records.csv", 400 + 100 * seed, seed)

    # The sites' firewalls do what they should: a listener there is out of reach, the coordinator's is not.
    listener = site_a.start(sys.executable, "-c", LISTEN)
    assert listener.stdout is not None
    assert listener.stdout.readline() == "up\n"
    assert not _reaches(coordinator, "site-a", 5999)
    listener.kill()
    listener.communicate()
    listener = coordinator.start(sys.executable, "-c", LISTEN)
    assert listener.stdout is not None
    assert listener.stdout.readline() == "up\n"
    assert _reaches(site_a, "coordinator", 5999)
    listener.communicate(timeout=20)

    # 1. Keys, made at each machine; the private halves stay there.
    made = {m.name: m.run("keys", "new", "masquerade.key") for m in machines.values()}

    # 2. The coordinator writes the study from the public halves.
    coordinator.run(
        "study", "new", "--protocol", "local-aggregation", "--calibration", calibration,
        "--output", "study.toml", "--name", "relapse",
        "--address", f"tcp://{HOSTS['coordinator']}:{PORT}", "--curator-key", made["coordinator"]["public_key"],
        "--party", f"site-a={made['site-a']['public_key']}", "--party", f"site-b={made['site-b']['public_key']}",
        "--epsilon", "1", "--min-records", "300",
        "--feature", "age:0:120", "--feature", "sex:f,m", "--feature", "marker:0:10", "--label", "relapse:yes",
    )  # fmt: skip

    # 3. One file goes to the sites.
    for site in (site_a, site_b):
        shutil.copy(coordinator.folder / "study.toml", site.folder)

    # 4. Fingerprints, compared by telephone: each machine shows the same for everybody.
    for machine in machines.values():
        shown = machine.run("study", "show", "study.toml")
        fingerprints = {party["name"]: party["fingerprint"] for party in shown["parties"]}
        fingerprints["coordinator"] = shown["curator"]["fingerprint"]
        assert fingerprints == {name: keys["fingerprint"] for name, keys in made.items()}

    # 5. The sites approve: they have read the study, and type its fingerprint.
    records = ("--data", "records.csv", "--key", "masquerade.key")
    for site in (site_a, site_b):
        site.run("budget", "init", "--epsilon", "10", "--delta", "1e-5")
        shown = site.run("study", "show", "study.toml")
        site.run("approve", "study.toml", *records, "--by", "steward", "--fingerprint", shown["fingerprint"])

    # 6. Everybody starts; the order does not matter: a site waits for Charlie.
    first = site_a.masquerade("party", "study.toml", *records, "--out", "run", "--approved")
    time.sleep(2)
    processes = {
        "site-a": first,
        "coordinator": coordinator.masquerade("curator", "study.toml", "--key", "masquerade.key", "--out", "run"),
        "site-b": site_b.masquerade("party", "study.toml", *records, "--out", "run", "--approved"),
    }
    for name, process in processes.items():
        _, err = process.communicate(timeout=90)
        assert process.returncode == 0, f"{name}: {err}"

    # 7. All hold the same model; Dave uses it.
    models = {name: json.loads((m.folder / "run" / "model.json").read_text()) for name, m in machines.items()}
    assert models["coordinator"]["shares"] == models["site-a"]["shares"] == models["site-b"]["shares"]
    result = json.loads((coordinator.folder / "run" / "result.json").read_text())
    assert (result["protocol"], result["calibration"]) == ("local-aggregation", calibration)
    sent = {stage["name"]: stage["ciphertexts"] for stage in result["stages"]}
    assert (sent["stage 1: smallest data set"], sent["stage 2: noise"]) == (2, 4)
    predict = coordinator.masquerade("predict", "run/model.json", str(site_a.folder / "records.csv"))
    out, err = predict.communicate(timeout=60)
    assert predict.returncode == 0, err
    assert len(out.strip().splitlines()) == 401


def test_two_sites_join_by_their_lines_on_three_machines(machines: dict[str, Machine]) -> None:
    """Only a line for each site, and the code, cross between the machines by other ways."""
    coordinator, *sites = machines.values()
    coordinator.run(
        "study", "new", "--output", "plan.toml", "--name", "relapse",
        "--address", f"tcp://{HOSTS['coordinator']}:{PORT}", "--party", "site-a", "--party", "site-b",
        "--min-records", "300",
        "--feature", "age:0:120", "--feature", "sex:f,m", "--feature", "marker:0:10", "--label", "relapse:yes",
    )  # fmt: skip
    screens = [coordinator.at_terminal("invite", "plan.toml")]
    try:
        screens[0].until("lobby is open")
        for seed, (site, line) in enumerate(zip(sites, re.findall(r"mqj1:\S+", screens[0].text), strict=True)):
            _records(site.folder / "records.csv", 400 + 100 * seed, seed)
            screens.append(site.at_terminal("join", line, "--data", "records.csv"))
        codes = [screen.until(r"code is\s+(\S+)")[1] for screen in screens[1:]]
        for screen, heard in zip(screens[1:], reversed(codes), strict=True):
            screen.type(f"{heard} all")
            screen.until("Epsilon")
            screen.type("")
            screen.until("Type yes")
            screen.type("yes")
        assert [screen.end() for screen in screens] == [0, 0, 0], [screen.text for screen in screens]
    finally:
        for screen in screens:
            screen.close()
    models = {next((m.folder / "runs").glob("*/*/model.json")).read_bytes() for m in machines.values()}
    assert len(models) == 1
    assert not (sites[0].folder / "charlie.key").exists()
