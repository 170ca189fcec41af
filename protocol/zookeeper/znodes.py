"""Codecs of all znodes of Kafka's ZooKeeper mode and of Lethe: exact when writing, tolerant when reading.

Written bytes have the field order of Kafka 3.9's own writer (Jackson over Scala 2.13 maps), except that a topic's
partitions are in ascending order. Readers ignore unknown fields and accept every version that Kafka 0.8 to 3.9 wrote.
Other content raises MalformedZnode(path, reason) and never another exception; readers of Lethe's own znodes never
raise. This module only collects the names; the rules are in the module of each subject.
"""

from lethe.protocol.zookeeper.json_fields import MalformedZnode
from lethe.protocol.zookeeper.znodes_admin import (
    ConfigChange,
    decode_config,
    decode_config_change,
    decode_isr_change,
    decode_log_dir_event,
    decode_preferred_replica_election,
    decode_reassignment,
    encode_config,
    encode_config_change,
    encode_isr_change,
    encode_log_dir_event,
    encode_preferred_replica_election,
    encode_reassignment,
)
from lethe.protocol.zookeeper.znodes_broker import (
    decode_broker,
    encode_broker,
    is_controller_registration,
    registered_at_ms,
)
from lethe.protocol.zookeeper.znodes_controller import (
    PRODUCER_ID_BLOCK_SIZE,
    ControllerZnode,
    ProducerIdBlock,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_producer_id_block,
    encode_cluster_id,
    encode_controller,
    encode_controller_epoch,
    encode_producer_id_block,
)
from lethe.protocol.zookeeper.znodes_debts import Debt, decode_debt, encode_debt
from lethe.protocol.zookeeper.znodes_forget import ForgetRequest, decode_forget_request, encode_forget_request
from lethe.protocol.zookeeper.znodes_lethe import (
    DeletionOrders,
    DeletionsPaused,
    OfflineReplicas,
    decode_deletion_marker,
    decode_deletions_paused,
    encode_deletion_marker,
    encode_deletions_paused,
)
from lethe.protocol.zookeeper.znodes_topic import TopicZnode, decode_state, decode_topic, encode_state, encode_topic
from lethe.protocol.zookeeper.znodes_trash import (
    RequestedAction,
    SavedPartition,
    TopicRequest,
    TrashEntry,
    TrashPhase,
    decode_offsets,
    decode_topic_request,
    decode_trash,
    encode_offsets,
    encode_topic_request,
    encode_trash,
)

__all__ = [
    "PRODUCER_ID_BLOCK_SIZE",
    "ConfigChange",
    "ControllerZnode",
    "Debt",
    "DeletionOrders",
    "DeletionsPaused",
    "ForgetRequest",
    "MalformedZnode",
    "OfflineReplicas",
    "ProducerIdBlock",
    "RequestedAction",
    "SavedPartition",
    "TopicRequest",
    "TopicZnode",
    "TrashEntry",
    "TrashPhase",
    "decode_broker",
    "decode_cluster_id",
    "decode_config",
    "decode_config_change",
    "decode_controller",
    "decode_controller_epoch",
    "decode_debt",
    "decode_deletion_marker",
    "decode_deletions_paused",
    "decode_forget_request",
    "decode_isr_change",
    "decode_log_dir_event",
    "decode_offsets",
    "decode_preferred_replica_election",
    "decode_producer_id_block",
    "decode_reassignment",
    "decode_state",
    "decode_topic",
    "decode_topic_request",
    "decode_trash",
    "encode_broker",
    "encode_cluster_id",
    "encode_config",
    "encode_config_change",
    "encode_controller",
    "encode_controller_epoch",
    "encode_debt",
    "encode_deletion_marker",
    "encode_deletions_paused",
    "encode_forget_request",
    "encode_isr_change",
    "encode_log_dir_event",
    "encode_offsets",
    "encode_preferred_replica_election",
    "encode_producer_id_block",
    "encode_reassignment",
    "encode_state",
    "encode_topic",
    "encode_topic_request",
    "encode_trash",
    "is_controller_registration",
    "registered_at_ms",
]
