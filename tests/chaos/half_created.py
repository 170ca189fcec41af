"""Directories that a Kafka broker has made for a replica and does not know.

It makes the directory first, then reads the topic's configuration in ZooKeeper. Where its session expires in between,
it answers the LeaderAndIsr with an error, and the directory stays, empty and without `partition.metadata`: no request
shows it, and StopReplica answers NONE. If the partition is made again in the other log directory, the broker does not
start any more ("Duplicate log directories"). An operator then moves the one without an id away; so does `set_aside`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.chaos.disks import METADATA

_DUPLICATES: Final = re.compile(r"Duplicate log directories for \S+ are found in both (\S+) and (\S+?)\.? ")
_FAILED: Final = re.compile(
    r"Error while processing LeaderAndIsr request .* for partition (\S+)-(\d+) \(state\.change\.logger\)\n"
    r".*SessionExpiredException"
)
HalfCreated = tuple[int, str, int]
"""Broker, topic, partition."""


def half_created(state_change_logs: Mapping[int, Path]) -> frozenset[HalfCreated]:
    """Return the replicas that each broker failed to create because its session had expired."""
    found: set[HalfCreated] = set()
    for broker, path in state_change_logs.items():
        text = path.read_text(errors="replace") if path.exists() else ""
        found.update((broker, match[1], int(match[2])) for match in _FAILED.finditer(text))
    return frozenset(found)


def set_aside(output: str) -> Path | None:
    """Move the duplicate without an id away of which the broker's output tells; return where to, None: there is none.

    Nothing is moved where both have an id, or neither has: then it is not known which of them is the replica."""
    match = _DUPLICATES.search(output)
    if match is None:
        return None
    blank = [path for path in map(Path, match.groups()) if path.is_dir() and not (path / METADATA).exists()]
    if len(blank) != 1:
        return None
    place = blank[0].parent.parent / "set-aside"
    place.mkdir(exist_ok=True)
    return blank[0].rename(place / f"{blank[0].name}.{len(list(place.iterdir()))}")
