"""Schema of the event records about debts: see `journal_schema`."""

from __future__ import annotations

from typing import Final

from lethe.protocol.journal_forms import Form, Key, KeyKind, Schema

WRITTEN: Final = "written"
PAID: Final = "paid"
VOID: Final = "void"
WRITTEN_OFF: Final = "written off"
"""What became of a debt. Old journals contain these texts: never change one."""

DEBT_SCHEMA: Final = Schema(
    "What an absent broker still had of a deleted topic: it was noted as owed, or the debt is closed.",
    (
        Form(
            "controller; agent for what it has deleted before it registered",
            r"topic/.+",
            (
                Key(
                    "what",
                    KeyKind.TEXT,
                    "`written` (before the topic's znodes go), `paid` (the broker is back and has deleted them), "
                    "`void` (the broker has none of that incarnation) or `written off` (the broker was forgotten)",
                ),
                Key("broker", KeyKind.ID, "the broker that owes it"),
                Key("topic_id", KeyKind.TEXT_OR_NULL, "the incarnation; null where there is no id"),
                Key(
                    "created_zxid", KeyKind.COUNT, "czxid of the topic's znode: with broker and topic it names the debt"
                ),
                Key("partitions", KeyKind.RANGES, "which partitions of the topic"),
                Key("owed_since_ms", KeyKind.COUNT, "since when, in ms since 1970"),
                Key("size_bytes", KeyKind.COUNT, "bytes of the whole debt, where they are known", optional=True),
                Key("why", KeyKind.TEXT, "why it is closed without being paid", optional=True),
            ),
        ),
    ),
)
