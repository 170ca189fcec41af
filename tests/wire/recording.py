"""What controller and brokers said to each other, kept in a file: JSON lines, the frames in base64.

{"kafka": "3.9.1", "controller": "kafka"}
{"phase": "the first broker joins"}
{"broker": 1, "api": "UPDATE_METADATA", "version": 8, "request": "...", "response": "AAAAAQ=="}
"""

from __future__ import annotations

import base64
import enum
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from lethe.protocol.kafka.control import ApiKey

DIRECTORY: Final = Path(__file__).parent
VERSIONS: Final = ("3.9.1", "2.5.1")
"""Of Kafka; recordings of these are in the repository."""
FROM_CONTROLLER: Final = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA, ApiKey.DESCRIBE_LOG_DIRS)


class Who(enum.StrEnum):
    """Whose controller is in charge."""

    KAFKA = "kafka"
    LETHE = "lethe"


class Exchange(NamedTuple):
    """A request between the controller and a broker, and its answer, in their bytes without the four of length."""

    phase: str
    broker: int
    """The broker that is told, or that asks."""
    api: ApiKey
    version: int
    request: bytes
    response: bytes | None
    """None where the connection broke before it."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One history with one controller, in the order in which requests passed."""

    who: Who
    kafka: str
    exchanges: tuple[Exchange, ...]


def file_of(who: Who, kafka: str, directory: Path = DIRECTORY) -> Path:
    """Where that recording is kept."""
    return directory / f"{who}-{kafka}.jsonl"


def write_recording(recording: Recording, directory: Path = DIRECTORY) -> Path:
    """Keep it, instead of an older one of the same controller and version; return the file."""
    path = file_of(recording.who, recording.kafka, directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in _lines(recording)), encoding="ascii")
    return path


def read_recording(who: Who, kafka: str, directory: Path = DIRECTORY) -> Recording:
    """Return the recording that is kept. Raises OSError where there is none, ValueError where the file is damaged."""
    path = file_of(who, kafka, directory)
    exchanges: list[Exchange] = []
    phase = ""
    try:
        head, *lines = map(json.loads, path.read_text(encoding="ascii").splitlines())
        for line in lines:
            if "phase" in line:
                phase = line["phase"]
                continue
            request = base64.b64decode(line["request"], validate=True)
            response = None if line["response"] is None else base64.b64decode(line["response"], validate=True)
            exchanges.append(Exchange(phase, line["broker"], ApiKey[line["api"]], line["version"], request, response))
        return Recording(Who(head["controller"]), head["kafka"], tuple(exchanges))
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no recording that `make golden` has written: {error!r}") from error


def _lines(recording: Recording) -> Iterator[dict[str, Any]]:
    yield {"kafka": recording.kafka, "controller": recording.who}
    for phase, exchanges in itertools.groupby(recording.exchanges, lambda each: each.phase):
        yield {"phase": phase}
        for each in exchanges:
            response = None if each.response is None else base64.b64encode(each.response).decode()
            request = base64.b64encode(each.request).decode()
            line = {"broker": each.broker, "api": each.api.name, "version": each.version}
            yield {**line, "request": request, "response": response}
