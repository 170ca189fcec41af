"""Where Lethe is meant to answer otherwise than Kafka's controller, each with its reason.

What is missing or wrong is not listed here: `make judge` fails for it. A listed difference that no step has any more
fails as well.
"""

from __future__ import annotations

from typing import Final

from tests.judge.compare import Difference
from tests.judge.step import Side

_AGENTS: Final = "See [decision 0071](decisions/0071-agents-for-clients.md)."

DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "the controller is a node more",
        (
            "Admin 3.9.1 cluster*",
            "Python aiokafka cluster",
            "Python kafka-python cluster",
            "kcat -L*",
            "3.9.1 ReassignPartitionsCommand --reassignment-json-file {dir:moves.json} --verify (single-0=2)",
            "3.9.1 ReassignPartitionsCommand --reassignment-json-file {dir:moves.json} --cancel (single-0=2 none*",
        ),
        frozenset({Side.LETHE, Side.AGENTS}),
        "Clients learn of an advertised controller as of a broker; Kafka's controller is one of the brokers "
        "([decision 0034](decisions/0034-clients-are-passed-on.md)).",
    ),
    Difference(
        "there is no znode of features",
        ("Admin 3.9.1 features",),
        frozenset({Side.LETHE, Side.AGENTS}),
        "Kafka's controller makes `/feature` where there is none. It has no features in ZooKeeper mode. Lethe leaves "
        "it as it is.",
    ),
    Difference(
        "agents have no records, groups and transactions",
        (
            *("Admin 3.9.1 delete-groups*", "Admin 3.9.1 transactions", "Admin 3.9.1 producers*", "kcat -Q*"),
            *("Admin 3.9.1 end-offset*", "Admin 3.9.1 move-dir*", "Python confluent produce*"),
            *("3.9.1 ConsumerGroupCommand*", "3.9.1 GetOffsetShell*", "3.9.1 DeleteRecordsCommand*"),
            "3.9.1 TransactionsCommand*",
        ),
        frozenset({Side.AGENTS}),
        _AGENTS,
    ),
    Difference(
        "agents leave quotas, ACLs, tokens and SCRAM users to brokers",
        (
            *("3.9.1 ConfigCommand --entity-type users*", "3.9.1 ConfigCommand --entity-type clients*"),
            *("3.9.1 ConfigCommand --entity-type ips*", "Admin 3.9.1 set-quota*", "Admin 3.9.1 quotas*"),
            *("Admin 3.9.1 scram-users*", "Admin 3.9.1 create-once quota-more*", "Admin 3.9.1 grow-once quota*"),
            *("Admin 3.9.1 delete-once quota*", "Admin 3.9.1 check-create quota-more*"),
            *("3.9.1 AclCommand*", "Admin 3.9.1 acls", "Admin 3.9.1 create-acl*", "Admin 3.9.1 delete-acl*"),
            *("3.9.1 DelegationTokenCommand*", "Admin 3.9.1 create-token*", "Admin 3.9.1 tokens*"),
        ),
        frozenset({Side.AGENTS}),
        _AGENTS,
    ),
    Difference(
        "agents show a topic's settings in the order in which they were written",
        ("3.9.1 TopicCommand --describe --topic judge-counts.*",),
        frozenset({Side.AGENTS}),
        "A broker's answer has the order of a hash map.",
        shows="Configs: ",
    ),
    Difference(
        "agents have settings and loggers of their own",
        (
            *("Admin 3.9.1 configs BROKER 1", "Python confluent configs BROKER 1"),
            "3.9.1 ConfigCommand --entity-type brokers --entity-name 1 --describe*",
            "3.9.1 ConfigCommand --entity-type brokers --entity-name 1 --alter --add-config no.such.config=1*",
            "3.9.1 ConfigCommand --entity-type brokers --entity-name 1 --alter --delete-config log.cleaner.threads*",
            "3.9.1 ConfigCommand --entity-type broker-loggers*",
        ),
        frozenset({Side.AGENTS}),
        "They show those of Kafka's settings that they know or are given, and refuse a name that nobody knows, which "
        "Kafka stores. They have no loggers of Java. " + _AGENTS,
    ),
    Difference(
        "clients of Kafka 2.5 ask no broker without Produce",
        ("2.5.1 *",),
        frozenset({Side.AGENTS}),
        "They give up when their time is over. " + _AGENTS,
        shows="imeout",
    ),
    Difference(
        "internal topics are not deleted",
        ("3.9.1 TopicCommand --delete --topic __consumer_offsets",),
        frozenset({Side.LETHE, Side.AGENTS}),
        "Kafka deletes `__consumer_offsets`, and with it the offsets of all groups. Lethe protects it, whoever asks.",
    ),
)
