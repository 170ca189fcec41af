"""The columns of the tables about debts and the trash: see `schemas`."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.schemas import DAY, INTEGER, LONG, STRING, TIMESTAMP, table

DEBTS: Final = table(
    ("topic", STRING, "topic"),
    ("topic_id", STRING, "the incarnation; null where the cluster has no ids"),
    ("span", INTEGER, "the deletion that ended without the broker; null if the journal does not have it"),
    ("broker", INTEGER, "who owes"),
    ("created_zxid", LONG, "czxid of the topic's znode"),
    ("partitions", STRING, "as ranges: 0-3,7"),
    ("replicas", INTEGER, "how many partitions"),
    ("size_bytes", LONG, "as the journal has it; null if unknown"),
    ("since", TIMESTAMP, "when it was written"),
    ("closed_at", TIMESTAMP, "null while it is a promise"),
    ("how", STRING, "paid, void (the broker has none of that incarnation), written off; null: a promise"),
    ("closed_by", STRING, "who wrote that: a controller, or the agent at its start"),
    ("why", STRING, "why it was closed without being paid"),
    ("paid_replicas", INTEGER, "how many of the replicas were paid"),
    ("closed_again_at", TIMESTAMP, "when a controller closed it again; null: none did"),
    ("written_line", STRING, "source and id of the record that it was last written"),
    ("closed_line", STRING, "source and id of the record that it was closed"),
    DAY,
)
TRASH: Final = table(
    ("topic", STRING, "topic"),
    ("topic_id", STRING, "the incarnation"),
    ("partitions", STRING, "as ranges: 0-3,7"),
    ("trashed_at", TIMESTAMP, "when it left service"),
    ("until", TIMESTAMP, "when it expires"),
    ("left_at", TIMESTAMP, "null while it is in the trash"),
    (
        "how",
        STRING,
        "back, expired, purged, gave way (to a full disk), deleted (no line says why); null: it is in the trash",
    ),
    DAY,
)
OWED_BY_BROKER: Final = table(
    ("broker", INTEGER, "broker"),
    ("written", LONG, "debts that began that day"),
    ("paid", LONG, "closed that day"),
    ("void", LONG, "closed that day: the broker had none of that incarnation"),
    ("written_off", LONG, "closed that day: the broker was forgotten"),
    ("open", LONG, "debts at the end of that day"),
    ("open_replicas", LONG, "their replicas"),
    ("owed_bytes", LONG, "of the open debts whose size the journal or a survey has"),
    ("unsized", LONG, "open debts of unknown size"),
    DAY,
)
