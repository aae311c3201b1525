"""Key files: private from the first moment, and refused when they are not."""

import copy
import os
import pickle
import stat
from pathlib import Path

import pytest
import zmq
from zmq.utils import z85

from masquerade_core.crypto.boxes import verify
from masquerade_core.errors import BadInput
from masquerade_host.store.keyfiles import Keys, load_keys
from masquerade_host.store.new_keys import make_keys
from tests.messages import raises


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a key file was made."""
    made = tmp_path / "private" / "my.key"
    make_keys(made)
    return made


def test_keys_come_back_and_only_the_owner_can_read_them(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = make_keys(tmp_path / "a" / "b.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a" / "b.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    read = load_keys(tmp_path / "a" / "b.key")
    assert read.public == made.public
    assert verify(read.public.sign, b"x", made.signing.sign(b"x"))
    assert zmq.curve_public(z85.encode(read.curve)) == z85.encode(read.public.curve)


def test_two_keys_differ(tmp_path: Path) -> None:
    assert make_keys(tmp_path / "1").public != make_keys(tmp_path / "2").public


def test_keys_are_never_overwritten(path: Path) -> None:
    text = path.read_bytes()
    with raises(BadInput, "keys_not_overwritten"):
        make_keys(path)
    assert path.read_bytes() == text


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o610, 0o601])
def test_a_key_file_that_others_can_use_is_refused_with_the_command_that_helps(path: Path, mode: int) -> None:
    path.chmod(mode)
    with raises(BadInput, "key_file_mode", ..., f"{mode:04o}") as caught:
        load_keys(path)
    assert f"chmod 600 {path}" in caught.value.hint


def test_a_folder_in_which_others_can_exchange_the_file_is_refused(path: Path) -> None:
    path.parent.chmod(0o777)
    with raises(BadInput, "key_folder_writable", ...):
        load_keys(path)
    path.parent.chmod(0o1777)  # as /tmp is
    load_keys(path)


def test_a_folder_above_in_which_everybody_can_exchange_folders_is_refused(path: Path, tmp_path: Path) -> None:
    deep = path.parent / "a" / "b"
    deep.mkdir(parents=True)
    make_keys(deep / "my.key")
    link = tmp_path / "link"
    link.symlink_to(deep)
    path.parent.chmod(0o777)
    for name in (deep, link):
        with raises(BadInput, "key_folder_writable", f"{path.parent},"):
            load_keys(name / "my.key")
    path.parent.chmod(0o1777)
    load_keys(link / "my.key")
    path.parent.chmod(0o775)  # above the key's own folder a group may write: home folders are often so
    load_keys(deep / "my.key")


def test_a_symbolic_link_is_refused(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    with raises(BadInput, "key_file_is_a_link"):
        load_keys(link)
    with raises(BadInput, "keys_not_overwritten"):
        make_keys(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_somebody_elses_file_is_refused(path: Path) -> None:
    os.chown(path, 12345, 12345)
    with raises(BadInput, "key_file_of_another_user"):
        load_keys(path)


def test_no_file_and_no_regular_file(tmp_path: Path) -> None:
    with raises(BadInput, "key_file_missing"):
        load_keys(tmp_path / "nothing")
    with raises(BadInput, "key_file_not_regular"):
        load_keys(tmp_path)
    os.mkfifo(tmp_path / "fifo", 0o600)
    with raises(BadInput, "key_file_not_regular"):
        load_keys(tmp_path / "fifo")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("keys 1", "keys 2"),
        lambda text: text[:-20],
        lambda text: text + "more\n",
        lambda text: text.replace("=", ""),
        lambda text: "",
        lambda text: "x" * 10_000,
        lambda text: "mq1:no\nsecrets\nhere\n",
    ],
)
def test_a_file_that_holds_no_keys_is_refused_and_not_quoted(path: Path, change: object) -> None:
    text = path.read_text()
    secret = text.splitlines()[1][:12]
    path.write_text(change(text))  # type: ignore[operator]
    with raises(BadInput, "key_file_of_no_keys") as caught:
        load_keys(path)
    assert secret not in str(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(BadInput, "keys_not_written"):
        make_keys(tmp_path / "file" / "my.key")


def test_keys_show_nothing_of_themselves(path: Path) -> None:
    keys = load_keys(path)
    assert repr(keys) == "<Keys: secret>"
    assert not hasattr(keys, "__dict__")
    for leak in (pickle.dumps, copy.copy):
        with raises(TypeError, "secret_not_pickled"):
            leak(keys)
    with pytest.raises(TypeError):
        _ = keys == Keys(keys.curve, bytes(32))
