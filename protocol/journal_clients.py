"""Schema of the event records about clients' requests: see `journal_schema`."""

from __future__ import annotations

from typing import Final

from lethe.protocol.journal_forms import Form, Key, KeyKind, Schema

CLIENT_REQUEST_SCHEMA: Final = Schema(
    "A client's request that changes the cluster, or would, was answered.",
    (
        Form(
            "controller",
            r"client/.+",
            (
                Key(
                    "api",
                    KeyKind.TEXT,
                    "CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, "
                    "ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, ALTER_USER_SCRAM_CREDENTIALS or UPDATE_FEATURES",
                ),
                Key("host", KeyKind.TEXT, "the client's address"),
                Key("topics", KeyKind.COUNT, "how many topics, resources, users or features the request names"),
                Key("names", KeyKind.TEXT, "the first 20 of them: names, or ids where it has no names"),
                Key("errors", KeyKind.COUNTS, "Kafka's error name to how often it is in the answer, NONE included"),
                Key("validate_only", KeyKind.BOOLEAN, "true: nothing was to be changed", optional=True),
                Key(
                    "settings",
                    KeyKind.TEXT,
                    "names of the first 20 settings that ALTER_CONFIGS and INCREMENTAL_ALTER_CONFIGS change",
                    optional=True,
                ),
                Key("election", KeyKind.TEXT, "of ELECT_LEADERS: `PREFERRED` or `UNCLEAN`", optional=True),
            ),
        ),
    ),
)
