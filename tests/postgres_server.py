"""A PostgreSQL server of the tests' own: in a temporary folder, on a Unix socket there, and never on the network."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWNER, PASSWORD = "owner", "open-sesame-41"


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Parameters
    ----------
    socket : Path
        The folder of its socket.
    """

    socket: Path

    def address(self, user: str = OWNER, database: str = "postgres") -> str:
        """Its address; the password comes from the environment."""
        return f"postgresql:///{database}?host={self.socket}&user={user}"


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None where the machine has none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return None if initdb is None or shutil.which("pg_ctl") is None else Path(initdb).parent


@contextmanager
def running() -> Iterator[Server]:
    """Start a server, and stop it whatever happens. Its programs refuse root, so root lends them another user."""
    binaries = programs()
    assert binaries is not None
    folder = Path(tempfile.mkdtemp(prefix="masquerade-pg-", dir="/tmp"))
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = _other_user()
        os.chown(folder, user.pw_uid, user.pw_gid)
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    cluster, secret = folder / "cluster", folder / "secret"
    secret.write_text(PASSWORD)

    def run(program: str, *words: str | Path) -> None:
        # Its output goes to a file: a server that inherits a pipe would hold it open.
        with (folder / "output").open("ab") as output:
            command = [binaries / program, "-D", cluster, *words]
            done = subprocess.run(command, check=False, stdout=output, stderr=output, cwd=folder, timeout=120, **who)
        assert done.returncode == 0, f"{program}: {(folder / 'output').read_text()}"

    # A guard waits for the end of its input, which comes even where this process is killed. Then it stops the server.
    last = f"cat; '{binaries / 'pg_ctl'}' -D '{cluster}' -w -m immediate stop; cd /; rm -r '{folder}'"
    guard = subprocess.Popen(
        ["sh", "-c", f"{{ {last}; }} >/dev/null 2>&1"], stdin=subprocess.PIPE, start_new_session=True, cwd=folder, **who
    )
    assert guard.stdin is not None
    try:
        run("initdb", "--auth=scram-sha-256", f"--pwfile={secret}", f"--username={OWNER}", "--no-sync", "-EUTF8")
        run("pg_ctl", "-w", "-l", folder / "log", "-o", f"-c listen_addresses='' -k {folder} -F", "start")
        yield Server(folder)
    finally:
        guard.stdin.close()
        guard.wait(120)


def _other_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
