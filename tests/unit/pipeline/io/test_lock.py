"""The lock of a file system without locks, where two processes do things in turn; and waiting for a lock."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from lethe.pipeline.io import lock
from lethe.pipeline.io.files import FileSystemError
from lethe.pipeline.io.lock import LOCK, Locked, acquire, acquire_within

ROOT = "hdfs://namenode/lake"
PATH = f"{ROOT}/{LOCK}"


class Remote:
    """A file system as HDFS and S3 are: a file is created by one process. `before` is called with what is about to be
    done, once for each name; `claim` is the file of who removes a stale lock."""

    root = ROOT
    local_root: Path | None = None

    def __init__(self, texts: dict[str, str], **before: Callable[[], None]) -> None:
        self.texts = texts
        self.before = before

    def _begin(self, what: str) -> None:
        self.before.pop(what, lambda: None)()

    def exists(self, path: str) -> bool:
        return path in self.texts

    def read_text(self, path: str) -> str:
        self._begin("read_text")
        if path not in self.texts:
            raise FileSystemError(path)
        return self.texts[path]

    def write_text(self, path: str, text: str, *, new: bool = False) -> None:
        self._begin("create" if path == PATH else "claim")
        if new and path in self.texts:
            raise FileSystemError(path)
        self.texts[path] = text
        self._begin("answer")

    def remove(self, path: str) -> None:
        self.texts.pop(path, None)


def holding(files: Remote, what: str) -> contextlib.AbstractContextManager[None]:
    return acquire(cast("Any", files), what)


@pytest.fixture
def left() -> str:
    """The lock of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    return json.dumps({"host": socket.gethostname(), "pid": gone.pid, "what": "run 1"})


def what_holds(texts: dict[str, str]) -> str:
    return str(json.loads(texts[PATH])["what"])


def test_of_two_who_find_a_lock_that_was_left_one_gets_it(left: str) -> None:
    texts = {PATH: left}
    first = holding(Remote(texts), "run 2")
    late = Remote(texts, claim=lambda: first.__enter__())
    with pytest.raises(Locked, match=r"run 1.*remove hdfs://"):
        holding(late, "run 3").__enter__()
    assert what_holds(texts) == "run 2"
    first.__exit__(None, None, None)
    assert PATH not in texts
    with holding(Remote(texts), "run 4"):
        assert what_holds(texts) == "run 4"


def test_a_lock_that_was_given_back_and_taken_meanwhile_is_not_moved(left: str) -> None:
    texts = {PATH: left}
    other = holding(Remote(texts), "run 2")

    def given_back() -> None:
        del texts[PATH]
        other.__enter__()

    late = Remote(texts, claim=given_back)
    with pytest.raises(Locked, match="run 1"):
        holding(late, "run 3").__enter__()
    assert what_holds(texts) == "run 2"


def test_a_lock_that_goes_while_it_is_looked_at_is_free(left: str) -> None:
    texts = {PATH: left}
    late = Remote(texts, read_text=texts.clear)
    with holding(late, "run 3"):
        assert what_holds(texts) == "run 3"


def test_a_lock_that_goes_while_it_is_asked_for_is_free() -> None:
    texts = {PATH: "that of another"}

    def refuse() -> None:
        texts.clear()
        raise FileSystemError(PATH)

    with holding(Remote(texts, create=refuse), "run 3"):
        assert what_holds(texts) == "run 3"


def test_a_lock_whose_creation_was_not_answered_is_held() -> None:
    texts: dict[str, str] = {}

    def refuse() -> None:
        raise FileSystemError(PATH)

    with holding(Remote(texts, answer=refuse), "run 3"):
        assert what_holds(texts) == "run 3"
    assert not texts


def test_a_lock_that_is_another_one_while_it_is_read_is_read_again() -> None:
    texts = {PATH: json.dumps({"host": "far away", "pid": 1, "what": "run 2"})}

    def refuse() -> None:
        raise FileSystemError(PATH)

    with pytest.raises(Locked, match="run 2"):
        holding(Remote(texts, read_text=refuse), "run 3").__enter__()


def test_the_lock_of_another_is_not_removed_at_the_end() -> None:
    texts: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(holding(Remote(texts), "run 1"))
        texts.clear()  # as its user was told to do where the process is gone
        other = holding(Remote(texts), "run 2")
        other.__enter__()
    assert what_holds(texts) == "run 2"
    other.__exit__(None, None, None)
    assert not texts


# --- waiting ------------------------------------------------------------------------------------------------------


class Local(Remote):
    def __init__(self, root: Path) -> None:
        super().__init__({})
        self.local_root = root


def test_who_waits_is_told_for_whom_and_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "WAIT_POLL_S", 0.001)
    files, asked, said = cast("Any", Local(tmp_path)), threading.Event(), list[str]()

    def waiting(who: str) -> None:
        said.append(who)
        asked.set()

    def other() -> None:
        with acquire(files, "stream"):
            held.set()
            assert asked.wait(60)

    held = threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert held.wait(60)
        with acquire_within(files, "run", 60, waiting):
            assert said[0].endswith("(stream)")
    finally:
        asked.set()
        thread.join()


def test_who_has_waited_long_enough_is_refused(tmp_path: Path) -> None:
    files, said = cast("Any", Local(tmp_path)), list[str]()
    with acquire(files, "stream"):
        with pytest.raises(Locked, match=r"\(stream\): wait for it, or end it"):
            acquire_within(files, "run", 0.0, said.append).__enter__()
        assert not said
        with pytest.raises(Locked):
            acquire_within(files, "run", 0.01, said.append).__enter__()
        assert len(said) == 1
