"""Steps about topics: Kafka's TopicCommand of both versions. Their order is the order of the script."""

from __future__ import annotations

from typing import Any, Final

from tests.judge.step import Client, Free, Step

_LONG: Final = "x" * 250
PLACEMENT: Final = frozenset({Free.PLACEMENT})
ORDER: Final = frozenset({Free.ORDER})


def _new(*words: str, **more: Any) -> Step:
    return Step(Client.TOOLS, ("TopicCommand", *words), **more)


def _old(*words: str, **more: Any) -> Step:
    return Step(Client.OLD_TOOLS, ("TopicCommand", *words), **more)


_SIZES: Final = ("--partitions", "3", "--replication-factor", "2")
_ONE: Final = ("--partitions", "1", "--replication-factor", "1")
CREATE: Final = (
    _new("--list", note="of an empty cluster"),
    _new(
        "--create", "--topic", "orders", *_SIZES, "--config", "retention.ms=60000", "--config", "cleanup.policy=compact"
    ),
    _new("--create", "--topic", "orders", *_SIZES),
    _new("--create", "--topic", "orders", *_SIZES, "--if-not-exists"),
    _new("--describe", "--topic", "orders", free=PLACEMENT),
    _new("--create", "--topic", "placed", "--replica-assignment", "1:2,3:1"),
    _new("--describe", "--topic", "placed"),
    _new("--create", "--topic", "defaults"),
    _new("--describe", "--topic", "defaults", free=PLACEMENT),
    _new("--create", "--topic", "a.b", *_ONE),
    _new("--create", "--topic", "a_b", *_ONE),
    _new("--create", "--topic", "bad name", *_ONE),
    _new("--create", "--topic", "..", *_ONE),
    _new("--create", "--topic", _LONG, *_ONE),
    _new("--create", "--topic", "", *_ONE),
    _new("--create", "--topic", "__cluster_metadata", *_ONE),
    _new("--create", "--topic", "__consumer_offsets", "--partitions", "5", "--replication-factor", "2"),
    _new("--create", "--topic", "wide", "--partitions", "1", "--replication-factor", "5"),
    _new("--create", "--topic", "none", "--partitions", "1", "--replication-factor", "0"),
    _new("--create", "--topic", "none", "--partitions", "0", "--replication-factor", "1"),
    _new("--create", "--topic", "none", "--partitions", "-2", "--replication-factor", "1"),
    _new("--create", "--topic", "twice", "--replica-assignment", "1:1"),
    _new("--create", "--topic", "unknown", "--replica-assignment", "1:9"),
    _new("--create", "--topic", "uneven", "--replica-assignment", "1:2,3"),
    _new("--create", "--topic", "both", "--replica-assignment", "1:2", "--partitions", "1"),
    _new("--create", "--topic", "odd", *_ONE, "--config", "no.such.config=1"),
    _new("--create", "--topic", "odd", *_ONE, "--config", "retention.ms=soon"),
    _new("--create", "--topic", "odd", *_ONE, "--config", "cleanup.policy=burn"),
    _new("--create", "--topic", "odd", *_ONE, "--config", "min.insync.replicas=0"),
    _new("--create", "--topic", "strict", "--replica-assignment", "1:2", "--config", "min.insync.replicas=2"),
)
DESCRIBE: Final = (
    _new("--list"),
    _new("--list", "--exclude-internal"),
    _new("--list", "--topic", "or.*"),
    _new("--list", "--topic", "nothing.*"),
    _new("--describe", free=PLACEMENT),
    _new("--describe", "--exclude-internal", free=PLACEMENT),
    _new("--describe", "--topics-with-overrides", free=PLACEMENT),
    _new("--describe", "--under-replicated-partitions"),
    _new("--describe", "--unavailable-partitions"),
    _new("--describe", "--under-min-isr-partitions"),
    _new("--describe", "--at-min-isr-partitions", free=PLACEMENT),
    _new("--describe", "--topic", "pla.*"),
    _new("--describe", "--topic-id", "{id:placed}"),
    _new("--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ"),
    _new("--describe", "--topic", "nothing"),
    _new("--describe", "--topic", "nothing", "--if-exists"),
)
ALTER: Final = (
    _new("--alter", "--topic", "orders", "--partitions", "5"),
    _new("--describe", "--topic", "orders", free=PLACEMENT, note="grown"),
    _new("--alter", "--topic", "orders", "--partitions", "4"),
    _new("--alter", "--topic", "orders", "--partitions", "5", note="as it is"),
    _new("--alter", "--topic", "orders", "--partitions", "0"),
    _new("--alter", "--topic", "placed", "--partitions", "3", "--replica-assignment", "1:2,3:1,2:3"),
    _new("--describe", "--topic", "placed", note="grown"),
    _new("--alter", "--topic", "placed", "--partitions", "5", "--replica-assignment", "1:2,3:1,2:3,1:2"),
    _new("--alter", "--topic", "placed", "--partitions", "4", "--replica-assignment", "1:2,3:1,2:3,9:1"),
    _new("--alter", "--topic", "placed", "--partitions", "4", "--replica-assignment", "1:2,3:1,2:3,1"),
    _new("--alter", "--topic", "nothing", "--partitions", "3"),
    _new("--alter", "--topic", "nothing", "--partitions", "3", "--if-exists"),
    _new("--alter", "--topic", "orders", "--config", "retention.ms=1"),
)
DELETE: Final = (
    _new("--delete", "--topic", "defaults"),
    _new("--list", note="one is deleted"),
    _new("--delete", "--topic", "defaults", note="again"),
    _new("--delete", "--topic", "defaults", "--if-exists"),
    _new("--delete", "--topic", "a.*"),
    _new("--list", note="some are deleted"),
)
OLD: Final = (
    _old("--create", "--topic", "old", *_SIZES, "--config", "retention.ms=60000"),
    _old("--create", "--topic", "old", *_SIZES, note="again"),
    _old("--create", "--topic", "old", *_SIZES, "--if-not-exists"),
    _old("--create", "--topic", "old.placed", "--replica-assignment", "1:2,3:1"),
    _old("--create", "--topic", "old_placed", *_ONE),
    _old("--create", "--topic", "wide", "--partitions", "1", "--replication-factor", "5"),
    _old("--create", "--topic", "unknown", "--replica-assignment", "1:9"),
    _old("--create", "--topic", "odd", *_ONE, "--config", "retention.ms=soon"),
    _old("--list"),
    _old("--describe", "--topic", "old", free=PLACEMENT),
    _old("--describe", "--topic", "old.placed"),
    _old("--describe", "--under-replicated-partitions"),
    _old("--describe", "--topic", "nothing"),
    _old("--alter", "--topic", "old", "--partitions", "4"),
    _old("--alter", "--topic", "old", "--partitions", "2"),
    _old("--alter", "--topic", "old.placed", "--partitions", "3", "--replica-assignment", "1:2,3:1,2:3"),
    _old("--delete", "--topic", "old.*"),
    _old("--delete", "--topic", "old"),
    _old("--list", note="all are deleted"),
)
INTERNAL: Final = (_new("--delete", "--topic", "__consumer_offsets"),)
"""The last of all: afterwards the sides are not alike."""
STEPS: Final = (*CREATE, *DESCRIBE, *ALTER, *DELETE, *OLD)
