"""Schema of the event records about a topic in service or in the trash: see `journal_schema`."""

from __future__ import annotations

from typing import Final

from lethe.protocol.journal_forms import Form, Key, KeyKind

TRASHED: Final = "in the trash"
BACK: Final = "back from the trash"
RESTORED: Final = "settings and offsets are restored"
EXPIRED: Final = "its time in the trash is over"
PURGED: Final = "purged from the trash"
GAVE_WAY: Final = "gives way to a full disk"
"""What became of a topic in the trash. Old journals contain these texts: never change one."""

TOPIC_EVENT_FORM: Final = Form(
    "controller, for the partitions of a topic",
    r"topic/.+",
    (
        Key(
            "what",
            KeyKind.TEXT,
            f"such as `partitions added`; of the trash: `{TRASHED}`, `{BACK}`, then `{RESTORED}`; `{EXPIRED}`, "
            f"`{PURGED}`: its deletion begins; `{GAVE_WAY}` before, if that is why",
        ),
        Key("partitions", KeyKind.RANGES, "which partitions of the topic"),
        Key("topic_id", KeyKind.TEXT_OR_NULL, "of the trash: the incarnation", optional=True),
        Key("broker", KeyKind.ID, f"with `{GAVE_WAY}`: the broker with that disk", optional=True),
        Key("path", KeyKind.TEXT, "the same: its log directory", optional=True),
        Key("usable_bytes", KeyKind.COUNT, "the same: what is free there", optional=True),
        Key("total_bytes", KeyKind.COUNT, "the same: its size", optional=True),
        Key("until_ms", KeyKind.COUNT, f"with `{TRASHED}`: when it expires, in ms since 1970", optional=True),
    ),
)
