"""Znode paths of Kafka and Lethe, one function each, and the reverse: what a path is about.

Paths are absolute and without the chroot, which the adapter adds and strips. The reverse functions return None for any
other path, so that a caller can try them one after another.
"""

from __future__ import annotations

from typing import Final

from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper.sanitizer import sanitized

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_TOPICS: Final = "/brokers/topics"
BROKER_SEQID: Final = "/brokers/seqid"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_BROKERS: Final = "/config/brokers"
CONFIG_USERS: Final = "/config/users"
ACLS: Final = "/kafka-acl"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
ACL_TOPICS: Final = "/kafka-acl/Topic"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
CLUSTER_ID: Final = "/cluster/id"
MIGRATION: Final = "/migration"
LETHE: Final = "/lethe"
DELETIONS_PAUSED: Final = "/lethe/deletions_paused"
CONTROLLERS: Final = "/lethe/controllers"
INSTANCES: Final = "/lethe/instances"
DEBTS: Final = "/lethe/debts"
TRASH: Final = "/lethe/trash"
REQUESTS: Final = "/lethe/requests"
FORGET: Final = "/lethe/forget"

DEFAULT_ENTITY: Final = "<default>"
"""Entity name of an entity type's default configuration."""

ISR_CHANGE_PREFIX: Final = "isr_change_"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
ACL_CHANGE_PREFIX: Final = "acl_changes_"

PERSISTENT_ROOTS: Final = (
    "/consumers",
    BROKER_IDS,
    BROKER_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQID,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Znodes that every Kafka 3.9 broker creates on start if missing (null data, persistent, parents included)."""

SENSITIVE_ROOTS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Not readable for the world if `zookeeper.set.acl` is on, including everything below."""


# --- paths --------------------------------------------------------------------------------------------------------


def controller() -> str:
    """Ephemeral: the active controller."""
    return CONTROLLER


def controller_epoch() -> str:
    """Number of the controller's term; every controller write is fenced on this znode's version."""
    return CONTROLLER_EPOCH


def broker_ids() -> str:
    """Parent of the live brokers' registrations."""
    return BROKER_IDS


def broker_id(broker: int) -> str:
    """Ephemeral: the registration of one live broker; its czxid is the broker's epoch."""
    return f"{BROKER_IDS}/{broker}"


def broker_topics() -> str:
    """Parent of all topics."""
    return BROKER_TOPICS


def topic(name: str) -> str:
    """The topic's id and replica assignment."""
    return f"{BROKER_TOPICS}/{name}"


def topic_partitions(name: str) -> str:
    """Parent of the topic's partitions."""
    return f"{BROKER_TOPICS}/{name}/partitions"


def topic_partition(name: str, partition: int) -> str:
    """Parent of one partition's state."""
    return f"{BROKER_TOPICS}/{name}/partitions/{partition}"


def partition_state(name: str, partition: int) -> str:
    """Leader and ISR of one partition; its version is the partition epoch."""
    return f"{BROKER_TOPICS}/{name}/partitions/{partition}/state"


def delete_topics() -> str:
    """Parent of the deletion markers."""
    return DELETE_TOPICS


def delete_topic(name: str) -> str:
    """The topic's deletion marker."""
    return f"{DELETE_TOPICS}/{name}"


def reassign_partitions() -> str:
    """Legacy request to move replicas."""
    return REASSIGN_PARTITIONS


def preferred_replica_election() -> str:
    """Legacy request to elect preferred leaders."""
    return PREFERRED_REPLICA_ELECTION


def isr_change_notifications() -> str:
    """Parent of the ISR change notifications of leaders (IBP < 2.7-IV2)."""
    return ISR_CHANGE_NOTIFICATION


def isr_change_notification(sequence: str = "") -> str:
    """One notification by its ten-digit suffix; without a suffix, the path for a sequential create."""
    return f"{ISR_CHANGE_NOTIFICATION}/{ISR_CHANGE_PREFIX}{sequence}"


def log_dir_event_notifications() -> str:
    """Parent of brokers' notifications about failed log directories."""
    return LOG_DIR_EVENT_NOTIFICATION


def log_dir_event_notification(sequence: str = "") -> str:
    """One notification by its ten-digit suffix; without a suffix, the path for a sequential create."""
    return f"{LOG_DIR_EVENT_NOTIFICATION}/{LOG_DIR_EVENT_PREFIX}{sequence}"


def config_topics() -> str:
    """Parent of the topics' configs."""
    return "/config/topics"


def config_topic(name: str) -> str:
    """The overrides of one topic."""
    return f"/config/topics/{name}"


def config_broker(broker: int) -> str:
    """The dynamic configuration of one broker."""
    return f"{CONFIG_BROKERS}/{broker}"


def config_broker_default() -> str:
    """The dynamic configuration of all brokers."""
    return f"{CONFIG_BROKERS}/{DEFAULT_ENTITY}"


def config_user(name: str) -> str:
    """The credentials and quotas of one user; the name is sanitized as in Kafka."""
    return f"{CONFIG_USERS}/{sanitized(name)}"


def config_changes() -> str:
    """Parent of the config change notifications."""
    return CONFIG_CHANGES


def config_change(sequence: str = "") -> str:
    """One notification by its ten-digit suffix; without a suffix, the path for a sequential create."""
    return f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}{sequence}"


def acl_topic(name: str) -> str:
    """The ACLs of the topic of exactly this name."""
    return f"{ACL_TOPICS}/{name}"


def acl_change() -> str:
    """The path for a sequential create of a notification that ACLs have changed."""
    return f"{ACL_CHANGES}/{ACL_CHANGE_PREFIX}"


def producer_id_block() -> str:
    """The producer id block allocated last."""
    return PRODUCER_ID_BLOCK


def migration() -> str:
    """State of a migration to KRaft (KIP-866)."""
    return MIGRATION


def lethe() -> str:
    """Parent of Lethe's own znodes; created when first needed."""
    return LETHE


def deletions_paused() -> str:
    """While it exists, deletions are paused."""
    return DELETIONS_PAUSED


def debts() -> str:
    """Parent of the brokers that owe the deletion of replicas."""
    return DEBTS


def debts_of(broker: int) -> str:
    """Parent of what one broker owes; created with its first debt."""
    return f"{DEBTS}/{broker}"


def debt(broker: int, topic: str, created_zxid: int) -> str:
    """What one broker owes of one incarnation of a topic, which the czxid of the topic's znode tells from others."""
    return f"{DEBTS}/{broker}/{topic}@{created_zxid}"


def debt_named(child: str) -> tuple[str, int] | None:
    """Return topic and czxid of a child of `debts_of`; None for any other name."""
    topic, separator, zxid = child.rpartition("@")
    return (topic, int(zxid)) if topic and separator and _is_ascii_digits(zxid) and len(zxid) <= 19 else None


def forgets() -> str:
    """Parent of the requests to give up a broker for good."""
    return FORGET


def forget(broker: int) -> str:
    """A request to give up what a broker owes; the controller removes it when it is done, or writes the refusal."""
    return f"{FORGET}/{broker}"


def trash() -> str:
    """Parent of the topics in the trash."""
    return TRASH


def trashed(topic: str) -> str:
    """A topic in the trash; its name is reserved."""
    return f"{TRASH}/{topic}"


def trashed_offsets(topic: str, number: int) -> str:
    """Committed offsets of consumer groups of a topic in the trash."""
    return f"{TRASH}/{topic}/offsets-{number}"


def requests() -> str:
    """Parent of what commands request of Lethe's controller, by topic."""
    return REQUESTS


def request(topic: str) -> str:
    """A request about one topic; the controller removes it when it is done, or writes the refusal into it."""
    return f"{REQUESTS}/{topic}"


def instance(controller: BrokerId) -> str:
    """Ephemeral: the one running controller process of this id."""
    return f"{INSTANCES}/{controller}"


def controllers() -> str:
    """Its children are the ids under which Lethe's controllers were advertised as brokers."""
    return CONTROLLERS


def controller_known(broker: int) -> str:
    """Marks an id of a controller, which holds no replicas, although brokers may have placed some on it."""
    return f"{CONTROLLERS}/{broker}"


# --- what a path is about -----------------------------------------------------------------------------------------


def child_of(parent: str, path: str) -> str | None:
    """Return the name of `path` directly below `parent`; None if it is not a direct child."""
    prefix = parent if parent.endswith("/") else parent + "/"
    if not path.startswith(prefix):
        return None
    name = path[len(prefix) :]
    return name if name and "/" not in name else None


def broker_of(path: str) -> BrokerId | None:
    """Return the broker whose registration the path is."""
    name = child_of(BROKER_IDS, path)
    return None if name is None else broker_named(name)


def broker_named(name: str) -> BrokerId | None:
    """Return the broker id in the name of a child of `/brokers/ids`; None for any other name."""
    number = _natural(name)
    return None if number is None else BrokerId(number)


def topic_of(path: str) -> str | None:
    """Return the topic whose own znode the path is."""
    return child_of(BROKER_TOPICS, path)


def deleted_topic_of(path: str) -> str | None:
    """Return the topic whose deletion marker the path is."""
    return child_of(DELETE_TOPICS, path)


def partition_of(path: str) -> TopicPartition | None:
    """Return the partition whose znode or state znode the path is."""
    parts = path.split("/")
    if len(parts) not in (6, 7) or path[: len(BROKER_TOPICS) + 1] != BROKER_TOPICS + "/" or parts[4] != "partitions":
        return None
    number = _natural(parts[5])
    if number is None or not parts[3] or (len(parts) == 7 and parts[6] != "state"):
        return None
    return TopicPartition(parts[3], number)


def state_of(path: str) -> TopicPartition | None:
    """Return the partition whose state znode the path is."""
    return partition_of(path) if path.endswith("/state") else None


def sequence_of(path: str, prefix: str) -> str | None:
    """Return the ten-digit suffix of a notification such as `/config/changes/config_change_0000000007`."""
    name = path.rsplit("/", 1)[-1]
    suffix = name[len(prefix) :]
    return suffix if name.startswith(prefix) and _is_ascii_digits(suffix) else None


def parent_of(path: str) -> str:
    """Return the parent's path; `/` for a top-level znode."""
    return path[: path.rindex("/")] or "/"


def ancestors_of(path: str) -> tuple[str, ...]:
    """Return all proper ancestors below the root, topmost first: they must exist before the path is created."""
    found = []
    at = path.find("/", 1)
    while at != -1:
        found.append(path[:at])
        at = path.find("/", at + 1)
    return tuple(found)


def is_sensitive(path: str) -> bool:
    """True if the world must not read the znode when `zookeeper.set.acl` is on."""
    return path.startswith(SENSITIVE_ROOTS)


def path_problem(path: str) -> str | None:
    """Return why ZooKeeper would refuse the path, as a message for users; None if it is legal."""
    if path == "/":
        return None
    if not path.startswith("/") or path.endswith("/"):
        return f"path {path!r} must start with '/' and must not end with it"
    for name in path[1:].split("/"):
        if name in ("", ".", ".."):
            return f"path {path!r} has an empty or relative part"
    if any(
        c <= "\x1f" or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\uf8ff" or "\ufff0" <= c <= "\uffff" for c in path
    ):
        return f"path {path!r} has a character that ZooKeeper does not allow"
    return None


def _natural(text: str) -> int | None:
    """Parse a canonical decimal number of at most 31 bits; None for other text (sign, leading zero, other digits)."""
    if not _is_ascii_digits(text) or len(text) > 10 or (len(text) > 1 and text[0] == "0"):
        return None
    number = int(text)
    return number if number <= 0x7FFFFFFF else None


def _is_ascii_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
