"""The small history of `make golden`, played again under our controller: brokers are told what Kafka's controller told
them, but for the differences that are listed (docs/wire-differences.md).

What Kafka's controller said is taken from its recording: it does not change. `make golden` records it anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.conftest import fetched
from tests.wire.compare import compare
from tests.wire.differences import DIFFERENCES
from tests.wire.history import record
from tests.wire.recording import VERSIONS, Who, read_recording, write_recording

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]


async def test_brokers_are_told_what_kafkas_controller_tells_them(version: str, tmp_path: Path) -> None:
    if version not in VERSIONS:
        pytest.skip(f"Kafka's controller was recorded with {' and '.join(VERSIONS)}, not with {version}")
    recording = await record(Who.LETHE, fetched(version), tmp_path)
    write_recording(recording, tmp_path)
    comparison = compare(read_recording(Who.KAFKA, version), recording, DIFFERENCES)
    assert not comparison.unlisted, "\n\n".join(comparison.unlisted)
