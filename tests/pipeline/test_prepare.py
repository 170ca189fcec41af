"""`lethe pipeline prepare` with a real Java, and a run that uses what it made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lethe.pipeline.io.lock import LOCK
from lethe.pipeline.session import JAVA_OPTIONS
from tests.pipeline.conftest import SETTINGS

FROM_THE_ARCHIVE = re.compile(r"org\.apache\.spark\.SparkContext source: shared objects file \(top\)")


def lethe(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(place / "cache"), "TMPDIR": str(place)}
    command = [sys.executable, "-m", "lethe", "pipeline", *words, "--json"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1_500, check=False)


def run_from(place: Path, loaded: Path) -> str:
    """Run over an empty journal; return where Java found its classes."""
    java = f"{SETTINGS[JAVA_OPTIONS]} -Xlog:class+load:file={loaded}"
    conf = {**SETTINGS, "spark.driver.memory": "600m", JAVA_OPTIONS: java}
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    (place / "journal").mkdir(exist_ok=True)
    (place / "journal" / "a.jsonl").touch()
    where = ("--lake", str(place / loaded.stem), "--journal", str(place / "journal"), "--master", "local[1]")
    done = lethe(place, "run", *where, *settings)
    assert (done.returncode, done.stderr) == (0, "")
    return loaded.read_text()


@pytest.mark.long
def test_spark_starts_from_the_classes_that_were_prepared(tmp_path: Path) -> None:
    assert not FROM_THE_ARCHIVE.search(run_from(tmp_path, tmp_path / "before.log"))
    done = lethe(tmp_path, "prepare")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    archive = Path(told["archive"])
    assert archive.stat().st_size == told["size_bytes"]
    assert sorted(archive.parent.iterdir()) == [archive.parent / LOCK, archive], "nothing else stays there"
    assert FROM_THE_ARCHIVE.search(run_from(tmp_path, tmp_path / "after.log"))
    # The Java of the run before may be ending, and has the file mapped.
    (tmp_path / "damaged").write_bytes(archive.read_bytes()[: 1 << 20])
    (tmp_path / "damaged").replace(archive)
    assert not FROM_THE_ARCHIVE.search(run_from(tmp_path, tmp_path / "damaged.log")), "a damaged one is left out"
