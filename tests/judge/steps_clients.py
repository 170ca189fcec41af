"""Steps of the other clients: Kafka's Admin client, kcat, three libraries for Python, Streams and Connect."""

from __future__ import annotations

from typing import Any, Final

from tests.judge.step import Client, Free, Step
from tests.judge.steps_topics import ORDER, PLACEMENT


def _admin(*words: str, **more: Any) -> Step:
    return Step(Client.ADMIN, words, **more)


def _python(*words: str, **more: Any) -> Step:
    return Step(Client.PYTHON, words, **more)


def _tool(*words: str, **more: Any) -> Step:
    return Step(Client.TOOLS, words, **more)


ADMIN: Final = (
    _admin("check-create", "j1:3:2", "j2:1:9", "bad name:1:1"),
    _admin("create", "j1:3:2:retention.ms=1000", "j2:-1:-1", "j3:1:9", "bad name:1:1", "j4:0:1", "j5:1:1:no.such=1"),
    _admin("create", "j1:1:1", "j6@1.2,2", "j7@1.1", "j8@9.1", "j9@1.2"),
    _admin("create", "b.c:1:1", "b_c:1:1"),
    _admin("create", note="nothing"),
    _admin("list"),
    _admin("describe", "j9", "nothing"),
    _admin("check-grow", "j9:2"),
    _admin("grow", "j9:3:2.1,1.2", "j1:3", "j2:1", "nothing:3", "j9x:1"),
    _admin("grow", "j9:4:2", note="another number of replicas"),
    _admin("grow", "j9:5:2.1", note="too few assignments"),
    _admin("describe", "j9", note="grown"),
    _admin("log-dirs", "j9", "1", "2", "3"),
    _admin("cluster"),
    _admin("features"),
    _admin("set-feature", "metadata.version", "1"),
    _admin("set-feature", "no.such.feature", "1"),
    _admin("quorum"),
    _admin("unregister", "3"),
    _admin("groups"),
    _admin("delete-groups", "judge"),
    _admin("transactions"),
    _admin("producers", "j9-0"),
    _admin("end-offset", "j9-0"),
    _admin("end-offset", "nothing-0"),
    _admin("metrics-resources"),
    _admin("move-dir", "j9", "0", "1", "/no/such/directory"),
    _admin("delete", "j1", "j2", "nothing", ""),
    _admin("delete-ids", "{id:j9}", "AAAAAAAAAAAAAAAAAAAAAQ", free=ORDER),
    _admin("delete-ids", "AAAAAAAAAAAAAAAAAAAAAA"),
    _admin("delete", "b.c", "b_c"),
    _admin("list", note="some are deleted"),
)
TOOLS: Final = (
    _tool("FeatureCommand", "describe"),
    _tool("FeatureCommand", "upgrade", "--feature", "metadata.version=1"),
    _tool("ConsumerGroupCommand", "--list"),
    _tool("ConsumerGroupCommand", "--describe", "--group", "judge"),
    _tool("ConsumerGroupCommand", "--delete", "--group", "judge"),
    _tool("GetOffsetShell", "--topic", "placed", free=ORDER),
    _tool(
        "DeleteRecordsCommand",
        "--offset-json-file",
        "{dir:offsets.json}",
        files={"offsets.json": ('{"partitions": [{"topic": "placed", "partition": 0, "offset": 0}], "version": 1}')},
    ),
    _tool("TransactionsCommand", "list"),
    _tool("MetadataQuorumCommand", "describe", "--status"),
    _tool("ClientMetricsCommand", "--list"),
)
PYTHON: Final = (
    _python("confluent", "create", "c1:2:2", "c2:1:9", "bad name:1:1"),
    _python("confluent", "create", "c1:2:2", note="again"),
    _python("confluent", "check-create", "c3:2:2"),
    _python("confluent", "grow", "c1:3"),
    _python("confluent", "grow", "c1:2"),
    _python("confluent", "list"),
    _python("confluent", "describe", "placed"),
    _python("confluent", "set-config", "TOPIC", "c1", "retention.ms=1000"),
    _python("confluent", "set-config", "TOPIC", "c1", "retention.ms=soon"),
    _python("confluent", "replace-configs", "TOPIC", "c1", "retention.ms=2000"),
    _python("confluent", "configs", "TOPIC", "c1"),
    _python("confluent", "configs", "BROKER", "1"),
    _python("confluent", "set-config", "BROKER", "1", "log.cleaner.threads=2"),
    _admin("delete-config", "BROKER", "1", "log.cleaner.threads=", note="set by confluent"),
    _python("confluent", "scram-users"),
    _python("confluent", "delete-scram", "nobody"),
    _python("confluent", "delete", "c1", "nothing"),
    _python("confluent", "list", note="one is deleted"),
    _python("aiokafka", "create", "k1:2:2", "k2:1:9"),
    _python("aiokafka", "create", "k1:2:2", note="again"),
    _python("aiokafka", "grow", "k1:3"),
    _python("aiokafka", "grow", "k1:2"),
    _python("aiokafka", "list"),
    _python("aiokafka", "describe", "k1"),
    _python("aiokafka", "set-config", "TOPIC", "k1", "retention.ms=1000"),
    _python("aiokafka", "configs", "TOPIC", "k1"),
    _python("aiokafka", "cluster"),
    _python("aiokafka", "delete", "k1", "nothing"),
    _python("kafka-python", "create", "p1:2:2"),
    _python("kafka-python", "create", "p1:2:2", note="again"),
    _python("kafka-python", "check-create", "p2:2:2"),
    _python("kafka-python", "grow", "p1:3"),
    _python("kafka-python", "grow", "p1:2"),
    _python("kafka-python", "list"),
    _python("kafka-python", "cluster"),
    _python("kafka-python", "delete", "p1"),
    _python("kafka-python", "delete", "nothing"),
)
_LISTED: Final = frozenset({Free.ORDER, Free.CONTROLLER, Free.PLACEMENT})
OTHERS: Final = (
    Step(Client.KCAT, ("-L", "-t", "placed"), free=_LISTED),
    Step(Client.KCAT, ("-L", "-t", "nothing"), free=_LISTED),
    Step(Client.KCAT, ("-Q", "-t", "placed:0:-1")),
    Step(Client.STREAMS, ("make-ready", "counts:2")),
    Step(Client.STREAMS, ("validate", "counts:2", "sums:1")),
    Step(Client.STREAMS, ("make-ready", "counts:2"), note="again"),
    Step(Client.STREAMS, ("make-ready", "counts:3")),
    Step(Client.CONNECT, ("create", "connect-offsets:3")),
    Step(Client.CONNECT, ("create", "connect-offsets:3"), note="again"),
    Step(Client.CONNECT, ("create-or-find", "connect-status:1")),
    Step(Client.CONNECT, ("create-or-find", "connect-status:1"), note="again"),
    Step(Client.CONNECT, ("is-compacted", "connect-offsets:3")),
    Step(Client.CONNECT, ("is-compacted", "placed:3")),
    Step(Client.CONNECT, ("describe", "connect-offsets:3")),
    Step(Client.TOOLS, ("TopicCommand", "--describe", "--topic", "connect-offsets"), free=PLACEMENT),
    Step(Client.TOOLS, ("TopicCommand", "--describe", "--topic", "judge-counts.*"), free=PLACEMENT),
)
STEPS: Final = (*ADMIN, *TOOLS, *PYTHON, *OTHERS)
