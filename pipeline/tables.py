"""Every table of the lake: its layer, columns, key, and the instant whose date is its partition."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pyspark.sql.types import StructType

from lethe.pipeline import schemas, schemas_debts


class Layer(enum.StrEnum):
    BRONZE = "bronze"
    """Rows as they were read; only grows."""
    SILVER = "silver"
    """The meaning of bronze rows, and what surveys found."""
    GOLD = "gold"
    """Answers."""


@dataclass(frozen=True, slots=True)
class Table:
    """`key` is unique in the table. `day_of` is the instant whose date is the partition; None for a small table that is
    replaced as a whole. Within a file, rows are in the order of `order`, so that a query for few of its values reads
    few pages. `repeated` are columns that say what another one says, as types; people are shown the other one."""

    layer: Layer
    name: str
    schema: StructType
    key: tuple[str, ...]
    day_of: str | None
    order: str | None = None
    repeated: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Below the lake's directory."""
        return f"{self.layer}/{self.name}"

    @property
    def is_partitioned(self) -> bool:
        return self.day_of is not None


_SPAN: Final = ("topic", "topic_id", "span")
_SURVEYED: Final = "taken_at"

CONTROLLER_EVENTS: Final = Table(
    Layer.BRONZE,
    "controller_events",
    schemas.CONTROLLER_EVENTS,
    ("source", "id"),
    "time",
    order="type",
    repeated=("said",),
)
SURVEYS: Final = Table(Layer.BRONZE, "surveys", schemas.SURVEYS, ("survey_id",), _SURVEYED)
ZNODE_SNAPSHOT: Final = Table(
    Layer.BRONZE,
    "znode_snapshot",
    schemas.ZNODE_SNAPSHOT,
    ("survey_id", "kind", "path", "topic", "partition"),
    _SURVEYED,
)
BROKER_METADATA: Final = Table(
    Layer.BRONZE, "broker_metadata", schemas.BROKER_METADATA, ("survey_id", "kind", "broker", "topic"), _SURVEYED
)
AGENT_INVENTORY: Final = Table(
    Layer.BRONZE,
    "agent_inventory",
    schemas.AGENT_INVENTORY,
    ("survey_id", "broker", "log_dir", "directory", "source"),
    _SURVEYED,
)
LASTING_EVENTS: Final = Table(
    Layer.SILVER, "lasting_events", schemas.CONTROLLER_EVENTS, ("source", "id"), None, repeated=("said",)
)
"""Records that bear on days after their own. They are few, so a run reads them and not all days."""
LASTING_DELETIONS: Final = Table(Layer.SILVER, "lasting_deletions", schemas.DELETION_SPANS, _SPAN, None)
"""Deletions that bear on days after their own."""
WAITING_DELETIONS: Final = Table(Layer.SILVER, "waiting_deletions", schemas.WAITING_DELETIONS, _SPAN, None)
"""Open deletions, however short they have waited, and why: STUCK_NOW of every moment."""
TOPIC_IDS: Final = Table(
    Layer.SILVER,
    "topic_ids",
    StructType([schemas.ZNODE_SNAPSHOT[name] for name in ("topic_id", "topic", "taken_at")]),
    ("topic_id", "topic"),
    None,
)
"""When a survey first saw that a topic has this id."""
DELETION_SPANS: Final = Table(
    Layer.SILVER, "deletion_spans", schemas.DELETION_SPANS, _SPAN, "marked_at, or the first line"
)
REPLICA_DELETIONS: Final = Table(
    Layer.SILVER,
    "replica_deletions",
    schemas.REPLICA_DELETIONS,
    (*_SPAN, "partition", "broker"),
    "marked_at of the span",
)
DEBTS: Final = Table(
    Layer.SILVER,
    "debts",
    schemas_debts.DEBTS,
    ("topic", "topic_id", "broker", "created_zxid", "since"),
    "marked_at of the span, or since",
)
TRASH: Final = Table(Layer.SILVER, "trash", schemas_debts.TRASH, ("topic", "trashed_at"), "trashed_at")
LEFTOVERS: Final = Table(
    Layer.SILVER,
    "leftovers",
    schemas.LEFTOVERS,
    ("survey_id", "place", "reason", "what", "broker", "topic", "partition"),
    _SURVEYED,
)
QUARANTINE: Final = Table(Layer.SILVER, "quarantine", schemas.QUARANTINE, ("_source_file", "line_hash"), None)
DELETION_SLO: Final = Table(Layer.GOLD, "deletion_slo", schemas.DELETION_SLO, ("day", "size_class"), "marked_at")
STUCK_NOW: Final = Table(Layer.GOLD, "stuck_now", schemas.STUCK_NOW, _SPAN, None)
SLOW_BROKERS: Final = Table(
    Layer.GOLD, "slow_brokers", schemas.SLOW_BROKERS, ("day", "broker"), "marked_at of the spans"
)
DAILY_RECLAIM: Final = Table(Layer.GOLD, "daily_reclaim", schemas.DAILY_RECLAIM, ("day", "broker"), "time of removal")
OWED_BY_BROKER: Final = Table(
    Layer.GOLD, "owed_by_broker", schemas_debts.OWED_BY_BROKER, ("day", "broker"), "time when something changed"
)
LEFTOVER_BY_BROKER: Final = Table(
    Layer.GOLD,
    "leftover_by_broker",
    schemas.LEFTOVER_BY_BROKER,
    ("survey_id", "broker", "place", "standing", "reason"),
    _SURVEYED,
)
STALE_TOPIC_CANDIDATES: Final = Table(
    Layer.GOLD, "stale_topic_candidates", schemas.STALE_TOPIC_CANDIDATES, ("topic",), None
)
CONTROLLER_TENURES: Final = Table(
    Layer.GOLD, "controller_tenures", schemas.CONTROLLER_TENURES, ("controller", "epoch", "elected_at"), "elected_at"
)
VIOLATIONS: Final = Table(Layer.GOLD, "violations", schemas.VIOLATIONS, ("rule", "subject", "time", "detail"), "time")

AUDITED_OF_JOURNAL: Final = (CONTROLLER_EVENTS, DELETION_SPANS)
AUDITED: Final = (*AUDITED_OF_JOURNAL, AGENT_INVENTORY, ZNODE_SNAPSHOT)
"""The tables that the audit of a day reads."""

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {table.name: table for table in tuple(globals().values()) if isinstance(table, Table)}
)
"""All of these, by name, in this order."""
