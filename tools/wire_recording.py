"""What controller and brokers said to each other, kept in a file: JSON lines, the frames in base64, small.

Most frames end as an earlier one does: the same body for another broker, the same list of live brokers. Such a frame
is kept as `[beginning, line, size]`: its own beginning, and the last so many bytes of the same member of that line.
Nothing is left out and nothing is changed, so that the frames are those that passed, byte for byte.

    {"kafka": "3.9.1", "controller": "kafka"}
    {"phase": "the first broker joins"}
    {"broker": 1, "api": "UPDATE_METADATA", "version": 8, "request": "...", "response": ["AAAAAQ==", 3, 4]}
"""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from lethe.protocol.kafka.control import ApiKey

DIRECTORY: Final = Path(__file__).parents[1] / "tests" / "wire"
VERSIONS: Final = ("3.9.1", "2.5.1")
"""Of Kafka; recordings of these are in the repository."""
_WORTH_SHARING: Final = 12
_SHARED: Final = ("request", "response")


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


def write(recording: Recording, directory: Path = DIRECTORY) -> Path:
    """Keeps it, instead of an older one of the same controller and version; returns the file."""
    path = file_of(recording.who, recording.kafka, directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in _lines(recording)), encoding="ascii")
    return path


def read(who: Who, kafka: str, directory: Path = DIRECTORY) -> Recording:
    """The recording that is kept. Raises OSError where there is none, ValueError where the file is damaged."""
    path = file_of(who, kafka, directory)
    exchanges: list[Exchange] = []
    seen: dict[tuple[int, str], bytes] = {}
    phase = ""
    lines = path.read_text(encoding="ascii").splitlines()
    try:
        head = json.loads(lines[0])
        for number, text in enumerate(lines[1:], 2):
            line = json.loads(text)
            if "phase" in line:
                phase = line["phase"]
                continue
            frames = {}
            for member in _SHARED:
                if line[member] is not None:
                    frames[member] = seen[number, member] = _frame(line[member], seen, member)
            exchanges.append(
                Exchange(
                    phase,
                    line["broker"],
                    ApiKey[line["api"]],
                    line["version"],
                    frames["request"],
                    frames.get("response"),
                )
            )
        return Recording(Who(head["controller"]), head["kafka"], tuple(exchanges))
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no recording that `make golden` has written: {error!r}") from error


def _lines(recording: Recording) -> Iterator[dict[str, Any]]:
    yield {"kafka": recording.kafka, "controller": recording.who}
    number, phase = 1, None
    seen: dict[str, list[tuple[int, bytes]]] = {member: [] for member in _SHARED}
    for each in recording.exchanges:
        if each.phase != phase:
            phase = each.phase
            number += 1
            yield {"phase": phase}
        number += 1
        frames = {}
        for member, frame in (("request", each.request), ("response", each.response)):
            frames[member] = None if frame is None else _kept(frame, seen[member])
            if frame is not None:
                seen[member].append((number, frame))
        yield {"broker": each.broker, "api": each.api.name, "version": each.version, **frames}


def _kept(frame: bytes, seen: Sequence[tuple[int, bytes]]) -> str | list[str | int]:
    number, shared = max(((line, _shared(frame, other)) for line, other in seen), key=lambda e: e[1], default=(0, 0))
    if shared < _WORTH_SHARING:
        return base64.b64encode(frame).decode()
    return [base64.b64encode(frame[: len(frame) - shared]).decode(), number, shared]


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes at their ends are the same."""
    limit = min(len(one), len(other))
    return next((size for size in range(limit) if one[-1 - size] != other[-1 - size]), limit)


def _frame(kept: str | list[Any], seen: dict[tuple[int, str], bytes], member: str) -> bytes:
    if isinstance(kept, str):
        return base64.b64decode(kept, validate=True)
    beginning, line, size = kept
    return base64.b64decode(beginning, validate=True) + seen[line, member][-size:]
