"""The service of the compose file that serves surveys' counts: nothing is shown before a survey has ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[3] / "deploy" / "compose" / "survey_metrics.py"
LETHE: Final = """#!/bin/sh
# Takes a survey: says its arguments, waits until it is let go, writes the file, and ends as it is told.
trap 'kill "$child" 2> /dev/null; : > "$HEARD.ended"; exit 143' TERM
echo "$*" > "$HEARD"
cat "$LET_GO" > "$HEARD.code" &
child=$!
wait "$child"
read -r code < "$HEARD.code"
[ "$code" -gt 3 ] || echo "lethe_survey_problems 0 $code" > "$3"
exit "$code"
"""
LIMIT_S: Final = 60


class Served:
    """The script, with a `lethe` of its own."""

    def __init__(self, place: Path, every_s: str, does: str = LETHE) -> None:
        lethe = place / "lethe"
        lethe.write_text(does)
        lethe.chmod(0o755)
        self.heard, self.let_go = place / "heard", place / "let-go"
        for fifo in (self.heard, self.let_go):
            os.mkfifo(fifo)
        environ = {"PATH": f"{place}:{os.environ['PATH']}", "HEARD": str(self.heard), "LET_GO": str(self.let_go)}
        environ |= {"SURVEY_COUNTS": str(place / "counts.prom"), "SURVEY_EVERY_S": every_s}
        command = [sys.executable, str(SCRIPT), "0"]
        # In a group of its own, so that what it has started can be ended with it.
        self.process = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert self.process.stderr is not None
        found = re.search(r"port (\d+)", self.process.stderr.readline())
        assert found is not None
        self._url = f"http://127.0.0.1:{found[1]}"

    def get(self, path: str = "/metrics") -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self._url + path, timeout=LIMIT_S) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""


@pytest.fixture
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with serving(Served(tmp_path, getattr(request, "param", "0"))) as one:
        yield one


@contextlib.contextmanager
def serving(one: Served) -> Iterator[Served]:
    try:
        yield one
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.communicate()


def test_counts_are_there_once_a_survey_has_ended_and_stay_where_one_fails(served: Served, tmp_path: Path) -> None:
    assert served.heard.read_text() == f"survey --textfile {tmp_path / 'counts.prom'}\n"
    assert served.get() == (503, "")
    assert served.get("/")[0] == 404
    served.let_go.write_text("1\n")
    served.heard.read_text()
    assert served.get() == (200, "lethe_survey_problems 0 1\n")
    served.let_go.write_text("5\n")
    served.heard.read_text()
    assert served.get() == (200, "lethe_survey_problems 0 1\n")
    served.let_go.write_text("3\n")
    served.heard.read_text()
    assert served.get() == (200, "lethe_survey_problems 0 3\n")


def test_it_ends_with_its_survey(served: Served) -> None:
    served.heard.read_text()
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(LIMIT_S) == 0
    assert served.heard.with_name("heard.ended").exists()


@pytest.mark.parametrize("served", ["3600"], indirect=True)
def test_it_ends_between_two_surveys(served: Served) -> None:
    served.heard.read_text()
    served.let_go.write_text("0\n")
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(LIMIT_S) == 0


def test_it_ends_while_a_survey_is_being_started(tmp_path: Path) -> None:
    # The moment is some milliseconds long: one of twenty meets it.
    for number in range(20):
        place = tmp_path / str(number)
        place.mkdir()
        with serving(Served(place, "0", does="#!/bin/sh\nexec sleep 600\n")) as one:
            one.process.send_signal(signal.SIGTERM)
            assert one.process.wait(LIMIT_S) == 0
