"""A site's verdict on a study before it runs; its settings; its status; and that one process serves a folder."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from masquerade.rotating import needs_of
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.approving import approval_given, record_approval
from masquerade_host.store.budget import give_budget
from masquerade_host.store.keyfiles import Keys
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from masquerade_party.serving import service
from masquerade_party.serving.folders import LOCK, Folders, Item, Place, Record, State
from masquerade_party.serving.judging import Judge
from masquerade_party.serving.live import table
from masquerade_party.serving.settings import Settings, load_settings
from masquerade_party.serving.standing import standing_now
from masquerade_party.serving.verdicts import Kind, Verdict
from tests.face_helpers import Shell
from tests.host_helpers import study_text
from tests.messages import raises, says

SETTINGS = 'key = "site.key"\n[data.patients]\nrecords = "records.csv"\nstate = "state"\n'


class Site:
    """A site's folder with a key, a budget of epsilon = 2, and a study of epsilon = 1 in the inbox."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.keys = {name: make_keys(root / f"{name}.key").public for name in ("site", "p2", CHARLIE)}
        self.text = study_text({"p1" if n == "site" else n: k for n, k in self.keys.items()}, "tcp://x.org:5555", 60.0)
        (root / "site.toml").write_text(SETTINGS)
        (root / "records.csv").write_text("x,y\n0.5,1\n")
        self.state = StateFolder(root / "state").made()
        self.folders = Folders(root)
        self.folders.make(["patients"])
        self.path = self.write()
        self._settings: Settings | None = None

    def write(self, *changes: tuple[str, str]) -> Path:
        text = self.text
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = self.folders.study(Item(Place.INBOX, "patients", "study"))
        path.write_text(text)
        return path

    def budget(self) -> Ledger:
        return give_budget(self.state, DEFAULT_POPULATION, 2.0, 0.5, by="a test")

    def approve(self) -> None:
        study = Study.parse(self.path.read_text())
        record_approval(self.state, study, approval_given(study, "p1", DEFAULT_POPULATION, "a test", counted=False))

    def verdict(self) -> Verdict:
        settings = load_settings(self.root)
        if settings != self._settings:  # else the same process looks again
            self._settings, self.judge = settings, Judge(self.root, settings, service._keys(self.root, settings))
        return self.judge.verdict(self.path, "patients")

    def says(self, kind: Kind, code: int, words: str) -> None:
        found = self.verdict()
        assert found.kind is kind, found
        assert found.error is not None
        assert (found.error.exit_code, words in found.error.message) == (code, True), found.error.message


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# --- Verdicts ---------------------------------------------------------------------------


def test_a_study_that_is_allowed_approved_of_and_paid_for_is_ready(site: Site) -> None:
    site.budget().close()
    site.approve()
    found = site.verdict()
    assert (found.kind, found.error) == (Kind.READY, None)
    assert (found.facts.study, found.facts.participant) == ("toy", "p1")


def test_a_study_that_nobody_has_approved_of_waits_and_says_how(site: Site) -> None:
    site.budget().close()
    site.says(Kind.WAITS, 6, "this study has not been approved for p1")
    error = site.verdict().error
    assert error is not None
    assert f"masquerade approve {site.path} --key {site.root}/site.key --data {site.root}/records.csv" in error.hint
    assert f"--state {site.root}/state" in error.hint
    site.approve()
    assert site.verdict().kind is Kind.READY
    site.write(("epsilon = 1.0", "epsilon = 0.9"))  # another study, which nobody has approved
    site.says(Kind.WAITS, 6, "this study has not been approved")


def test_a_query_is_a_data_set_as_well_and_is_shown_to_nobody(site: Site) -> None:
    site.budget().close()
    query = "postgresql://db.example/clinic SELECT x, y FROM visits"
    (site.root / "site.toml").write_text(SETTINGS.replace("records.csv", query))
    error = site.verdict().error
    assert error is not None
    assert "--data QUERY" in error.hint
    assert "SELECT" not in error.hint
    assert site.judge.known(site.path, "patients").records == query
    (site.root / "site.toml").write_text(SETTINGS.replace("records.csv", "mysql://db.example SELECT 1"))
    with raises(BadInput, "address_kind_refused", "mysql"):
        site.verdict()


def test_keys_that_are_rotated_still_serve_what_names_them(site: Site, shell: Shell) -> None:
    site.budget().close()
    site.approve()
    item = Item(Place.INBOX, "patients", "study")
    site.folders.write(item, Record(state=State.WAITS, participant="p1"))
    told = shell.json("keys", "rotate", site.root / "site.key", "--state", site.root / "no-such")
    study = Study.parse(site.text)
    (need,) = told.data["still_needed_by"]
    assert (need["study"], need["fingerprint"], need["participant"]) == ("toy", study.fingerprint(), "p1")
    kept = Path(told.data["old_file"])
    found = site.verdict()
    assert found.kind is Kind.READY
    assert found.known is not None
    assert found.known.key == kept
    site.state.approval(study, "p1").unlink()
    error = site.verdict().error
    assert error is not None
    assert f"--key {kept}" in error.hint
    new = Study.parse(site.text.replace(str(site.keys["site"]), told.data["public_key"]))
    site.path.write_text(new.to_toml())
    known = site.verdict().known
    assert known is not None
    assert known.key == site.root / "site.key"
    again = shell.json(
        "keys", "rotate", site.root / "site.key"
    )  # the older study's file is not there, and not approved
    assert [need["fingerprint"] for need in again.data["still_needed_by"]] == [new.fingerprint()]


def test_a_rotation_lists_each_study_once_with_what_is_known_of_its_run(site: Site, shell: Shell) -> None:
    study, ledger = Study.parse(site.text), site.budget()
    ledger.adopt(b"f" * 32, DEFAULT_POPULATION, by="a test")

    def listed(keys: Keys | None = None) -> tuple[list[str], int]:
        needs = needs_of(site.root / "site.key", site.keys["site"] if keys is None else keys.public)
        return [need.why for need in needs.studies], needs.finished

    assert listed() == ([], 0)
    site.approve()
    assert listed(make_keys(site.root / "stranger.key")) == ([], 0)
    (why,), _ = listed()
    assert says(why, "approved_and_not_run", "a test", ...)
    ledger.reserve(study, "p1", population=DEFAULT_POPULATION, fingerprint=b"f" * 32, approved_by="a test")
    ledger.start_attempt(study, "p1", b"f" * 32)
    (why,), _ = listed()
    assert says(why, "attempt_has_begun")
    ledger.finish(study, "p1")
    journal = site.state.run(study, "p1") / "journal.sqlite"
    journal.parent.mkdir(parents=True)
    journal.touch()
    (why,), _ = listed()
    assert says(why, "run_has_begun")
    journal.unlink()
    assert listed() == ([], 1)
    ledger.close()


@pytest.mark.parametrize("approved", [False, True])
def test_a_study_over_budget_is_refused_whoever_approved_of_it(site: Site, approved: bool) -> None:
    site.budget().close()
    site.write(("epsilon = 1.0", "epsilon = 2.5"))
    if approved:
        site.approve()
    site.says(Kind.REFUSED, 7, "would take epsilon = 2.5")


def test_what_is_reserved_for_the_study_itself_does_not_stand_in_its_way(site: Site) -> None:
    ledger, study = site.budget(), Study.parse(site.path.read_text())
    ledger.adopt(b"f" * 32, DEFAULT_POPULATION, by="a test")
    for nonce in ("0123456789abcdef", "0123456789abcde0"):
        each = Study.parse(site.text.replace("0123456789abcdef", nonce))
        ledger.reserve(each, "p1", population=DEFAULT_POPULATION, fingerprint=b"f" * 32, approved_by="a test")
    site.approve()
    assert site.verdict().kind is Kind.READY
    for _ in range(3):
        ledger.start_attempt(study, "p1", b"f" * 32)
        ledger.end_attempt(study, "p1", "a test")
    # Its attempts are used up. The budget is not to blame for that, and the run's own process says so.
    assert site.verdict().kind is Kind.READY
    ledger.finish(study, "p1")
    ledger.close()
    site.says(Kind.REFUSED, 6, "has finished on this machine")


def test_a_rule_of_the_site_forbids_a_study(site: Site) -> None:
    site.budget().close()
    site.approve()
    site.state.policy.write_text("[study]\nmax_epsilon = 0.5\n")
    site.says(Kind.REFUSED, 6, "max_epsilon")


def _no_ledger(_: Site) -> None:
    pass


def _broken_policy(site: Site) -> None:
    site.budget().close()
    site.state.policy.write_text("[study\n")


def _older_ledger(site: Site) -> None:
    site.budget().close()
    lines = site.state.root / "ledger.lines"
    lines.write_bytes(lines.read_bytes() * 2)


def _no_records(site: Site) -> None:
    site.budget().close()
    (site.root / "records.csv").unlink()


def _broken_approval(site: Site) -> None:
    site.budget().close()
    site.state.approval(Study.parse(site.text), "p1").write_text("{")


@pytest.mark.parametrize("fault", [_no_ledger, _broken_policy, _older_ledger, _no_records, _broken_approval])
def test_a_fault_of_the_site_refuses_no_study(site: Site, fault: Callable[[Site], None]) -> None:
    site.approve()
    fault(site)
    found = site.verdict()
    assert found.kind is Kind.WAITS
    assert found.error is not None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[study]", "[study", "TOML"),
        ("local-aggregation", "local-aggregatoin", "local-aggregatoin"),
        ('name = "toy"', 'name = "toy"\ntypo = 1', "typo"),
    ],
)
def test_a_file_that_is_no_study_is_refused_with_the_reason(site: Site, old: str, new: str, words: str) -> None:
    site.write((old, new))
    site.says(Kind.REFUSED, 4, words)


def test_a_study_of_others_is_refused(site: Site) -> None:
    site.write((str(site.keys["site"]), str(make_keys(site.root / "other.key").public)))
    found = site.verdict()
    assert (found.kind, found.error is not None and found.error.exit_code) == (Kind.REFUSED, 4)
    (site.root / "site.toml").write_text(SETTINGS.replace("site.key", "charlie.key"))
    site.write()
    site.says(Kind.REFUSED, 4, "Charlie's")


def test_a_link_is_no_study(site: Site) -> None:
    site.path.rename(site.root / "elsewhere.toml")
    site.path.symlink_to(site.root / "elsewhere.toml")
    site.says(Kind.REFUSED, 4, "symbolic link")


# --- Settings ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("key = 1", "key"),
        ('key = "k"', "data"),
        ('key = "k"\n[data]', "data"),
        ('key = "k"\n[data.p]\nrecord = "r"', "p has an unknown key 'record'"),
        ('key = "k"\n[data."../p"]\nrecords = "r"', "data"),
        ("key = ", "not TOML"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load_settings(tmp_path)
    assert words in caught.value.message


def test_without_settings_nothing_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(capsys)
    for words in (("site",), ("site", "status")):
        answer = shell(*words, "--folder", tmp_path)
        assert (answer.code, "site.toml" in answer.err, "records" in answer.err) == (4, True, True)


# --- One process, and its status --------------------------------------------------------------


def test_a_folder_is_served_by_one_process(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_PATIENCE", 0.0)
    with (site.root / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with raises(BadInput, "another_process_serves"):
            service.serve(site.root)


def test_the_status_says_what_waits_for_what(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    item = Item(Place.INBOX, "patients", "study")
    new = site.folders.move(
        item, Place.RUNNING, Record(state=State.RUNNING, study="toy", changed="2026-11-22T10:00:00Z")
    )
    events = [{"event": "stage", "name": "rounds"}, {"event": "progress", "done": 3, "total": 10}]
    site.folders.events(new).write_text("".join(f"{json.dumps(event)}\n" for event in events))
    site.write()
    site.folders.write(item, Record(state=State.WAITS, message="nobody has approved", hint="approve"))
    shell = Shell(capsys)
    answer = shell("site", "--folder", site.root, "status")
    for words in ("is not served now", "running  study  since 2026-11-22T10:00:00Z", "rounds, round 3 of 10",
                  "waits    study", "nobody has approved", "what to do: approve"):  # fmt: skip
        assert words in answer.err
    with (site.root / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = shell.json("site", "status", "--folder", site.root).data
    assert found["serving"]
    assert [(s["place"], s["state"], s["progress"]) for s in found["studies"]] == [
        ("running", "running", "rounds, round 3 of 10"), ("inbox", "waits", ""),
    ]  # fmt: skip


# --- The table at a terminal ------------------------------------------------------------

ADDRESS = "tcp://the-coordinator-of-our-study.of-a-department.example-clinic.org:5555"


def test_the_table_says_what_runs_and_waits_for_whom_and_for_how_long(site: Site) -> None:
    changed = "2026-01-01T00:00:00Z"
    now = datetime.fromisoformat(changed).timestamp() + 125
    waits = Record(state=State.WAITS, changed=changed, message="this study has not been approved for p1")
    site.folders.write(Item(Place.INBOX, "patients", "study"), waits)
    for place, name in ((Place.RUNNING, "long-" * 18), (Place.DONE, "old"), (Place.DONE, "older")):
        item = Item(place, "patients", name)
        site.folders.study(item).write_text(site.text)
        site.folders.write(item, Record(state=State.RUNNING, changed=changed))
    events: list[dict[str, object]] = [
        {"event": "connecting", "address": ADDRESS}, {"event": "stage", "name": "rounds"},
        {"event": "progress", "done": 3, "total": 10}, {"event": "traffic", "waited_for": "charlie", "seconds": 35.0},
    ]  # fmt: skip
    site.folders.events(Item(Place.RUNNING, "patients", "long-" * 18)).write_text("\n".join(map(json.dumps, events)))
    found = standing_now(site.root, ["patients"])
    lines = table(found, now, 79, 23)
    assert max(map(len, lines)) <= 79
    assert [" ".join(line.split()) for line in lines] == [
        "",
        "The site has 1 running, 1 in the inbox and 2 done.",
        "patients: " + ("long-" * 18)[:69],
        ("long-" * 18)[69:] + " running for 2 min 5 s",
        "rounds, round 3 of 10",
        "waiting for charlie 35 s",
        "Charlie is at",
        ADDRESS,
        "patients: study waits for 2 min 5 s",
        "this study has not been approved for p1",
    ]
    assert table(found, now, 79, 9)[-1] == "And 1 more: see 'masquerade site status'."
    assert len(table(found, now, 79, 9)) == 9
