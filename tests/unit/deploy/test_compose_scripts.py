"""The scripts of the compose file end when their container is stopped, and take what they wait for with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SCRIPTS: Final = Path(__file__).parents[3] / "deploy" / "compose"
LETHE: Final = """#!/bin/sh
case "$*" in
"brokers list --offline --json") echo '{"brokers": [1, 2, 3]}'; exit ;;
"brokers list") exit ;;
esac
trap 'echo ended >> "$HEARD"; exit 143' TERM
echo begun > "$HEARD"
while :; do sleep 0.05; done
"""
LIMIT_S: Final = 30


@pytest.mark.parametrize("script", ["demo.sh", "pipeline.sh", "survey.sh"])
def test_a_script_that_waits_hears_that_it_is_to_stop(script: str, tmp_path: Path) -> None:
    lethe, heard = tmp_path / "lethe", tmp_path / "heard"
    lethe.write_text(LETHE)
    lethe.chmod(0o755)
    os.mkfifo(heard)
    (tmp_path / "python").symlink_to(sys.executable)  # which is in every image, and not on every machine
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HEARD": str(heard)}
    process = subprocess.Popen(["sh", str(SCRIPTS / script)], env=environ, stdout=subprocess.DEVNULL)
    try:
        assert heard.read_text() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert heard.read_text() == "ended\n"
        assert process.wait(LIMIT_S) == 143
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("code, ends_with", [(0, 0), (1, 1), (2, 2)])
def test_the_pipeline_ends_as_lethe_does(code: int, ends_with: int, tmp_path: Path) -> None:
    lethe = tmp_path / "lethe"
    lethe.write_text(f'#!/bin/sh\n[ "$1" = report ] || exit {code}\n')
    lethe.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", str(SCRIPTS / "pipeline.sh")], env=environ, check=False, timeout=LIMIT_S)
    assert done.returncode == ends_with


def test_how_a_command_is_run_is_told_once() -> None:
    having = [script.name for script in sorted(SCRIPTS.glob("*.sh")) if "run() {" in script.read_text(encoding="utf-8")]
    assert having == ["run.sh"]
