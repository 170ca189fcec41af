"""The file of a recording keeps every byte, and says where it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.protocol.kafka.control import ApiKey
from tests.wire.recording import Exchange, Recording, Who, file_of, read_recording, write_recording

LONG = bytes(range(200))


def exchange(request: bytes, response: bytes | None = b"ok", phase: str = "first", broker: int = 1) -> Exchange:
    return Exchange(phase, broker, ApiKey.UPDATE_METADATA, 8, request, response)


RECORDING = Recording(
    Who.LETHE,
    "3.9.1",
    (
        exchange(b"\0\1" + LONG),
        exchange(b"\0\2" + LONG, broker=2),
        exchange(LONG[100:]),
        exchange(b"\0\3" + LONG, None, "second"),
        exchange(b"", b"", "second"),
        exchange(LONG, LONG, "first"),
    ),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = write_recording(RECORDING, tmp_path)
    assert path == file_of(Who.LETHE, "3.9.1", tmp_path)
    assert read_recording(Who.LETHE, "3.9.1", tmp_path) == RECORDING


@pytest.mark.parametrize(
    "damage",
    ["", "{}\n", '{"kafka": "3.9.1", "controller": "kafka"}\n{"broker": 1}\n', '{"kafka": 1, "controller": "me"}\n'],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    path = file_of(Who.KAFKA, "3.9.1", tmp_path)
    path.write_text(damage)
    with pytest.raises(ValueError, match=r"kafka-3\.9\.1\.jsonl is no recording that `make golden` has written"):
        read_recording(Who.KAFKA, "3.9.1", tmp_path)


def test_a_frame_that_is_not_base64_is_damage(tmp_path: Path) -> None:
    path = write_recording(RECORDING, tmp_path)
    path.write_text(path.read_text().replace("b2s=", "b2s"))
    with pytest.raises(ValueError, match="no recording"):
        read_recording(Who.LETHE, "3.9.1", tmp_path)
