"""Znodes about the cluster as a whole: the controller, its epoch, cluster id, features, producer ids, migration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.protocol.vocabulary import BrokerId, ControllerEpoch
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import (
    INT32_MAX,
    dump,
    integer,
    malformed,
    number_text,
    parse_object,
    shown,
    string,
)

NO_KRAFT_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class ControllerZnode:
    """The active controller, the time of its election, and during a migration the KRaft controller's epoch (else -1).

    `admin` is the HTTP endpoint of a Lethe controller, such as `http://host:port`. It stands last in the JSON, as
    `"lethe":{"admin":...}`. Kafka (checked from 2.5 to 3.9) reads `brokerid` and `kraftControllerEpoch` by name and
    ignores other keys.
    """

    broker_id: BrokerId
    timestamp_ms: int = -1
    kraft_epoch: int = NO_KRAFT_EPOCH
    admin: str | None = None

    @property
    def is_kraft(self) -> bool:
        """True if a KRaft controller has taken over the cluster: ZooKeeper controllers must not compete."""
        return self.kraft_epoch > 0


def encode_controller(znode: ControllerZnode, *, version: int = 2) -> bytes:
    """Return the data of `/controller`: version 2 from 3.4 on, version 1 (without the KRaft epoch) before."""
    fields: dict[str, object] = {
        "version": version,
        "brokerid": znode.broker_id,
        "timestamp": str(znode.timestamp_ms),
    }
    if version >= 2:
        fields["kraftControllerEpoch"] = znode.kraft_epoch
    if znode.admin is not None:
        fields["lethe"] = {"admin": znode.admin}
    return dump(fields)


def decode_controller(data: bytes | None) -> ControllerZnode:
    """Decode `/controller`; only `brokerid` is required."""
    path = paths.CONTROLLER
    fields = parse_object(path, data)
    return ControllerZnode(
        broker_id=BrokerId(integer(path, "'brokerid'", fields.get("brokerid"), minimum=0)),
        timestamp_ms=_timestamp(fields.get("timestamp")),
        kraft_epoch=integer(
            path, "'kraftControllerEpoch'", fields.get("kraftControllerEpoch"), minimum=-1, default=NO_KRAFT_EPOCH
        ),
        admin=_admin(fields.get("lethe")),
    )


def _timestamp(value: object) -> int:
    """Return the time, -1 if malformed: nothing depends on the time of election."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else -1


def _admin(value: object) -> str | None:
    """Return Lethe's admin endpoint; None if missing or malformed. It is a convenience for tools."""
    admin = value.get("admin") if isinstance(value, dict) else None
    return admin if isinstance(admin, str) and admin else None


def encode_controller_epoch(epoch: int) -> bytes:
    """Return plain decimal text."""
    return b"%d" % epoch


def decode_controller_epoch(data: bytes | None) -> ControllerEpoch:
    """Return the epoch in `/controller_epoch`."""
    if not data or not data.isdigit() or len(data) > 10 or int(data) > INT32_MAX:
        malformed(paths.CONTROLLER_EPOCH, f"expected decimal digits, found {shown(data or b'')}")
    return ControllerEpoch(int(data))


# --- cluster id ---------------------------------------------------------------------------------------------------


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the data of `/cluster/id`. Its version is a string, as Kafka writes it."""
    return dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    """Return the cluster's id."""
    return string(paths.CLUSTER_ID, "'id'", parse_object(paths.CLUSTER_ID, data).get("id"))


# --- producer ids -------------------------------------------------------------------------------------------------

PRODUCER_ID_BLOCK_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids `start` to `end`, both included, allocated to one broker."""

    broker_id: BrokerId
    start: int
    end: int


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    """Return the data of `/latest_producer_id_block`."""
    return dump({"version": 1, "broker": block.broker_id, "block_start": str(block.start), "block_end": str(block.end)})


def decode_producer_id_block(data: bytes | None) -> ProducerIdBlock | None:
    """Return the block allocated last; None if the znode has no data, which means "none yet"."""
    if not data:
        return None
    path = paths.PRODUCER_ID_BLOCK
    fields = parse_object(path, data)
    start = number_text(path, "'block_start'", fields.get("block_start"))
    end = number_text(path, "'block_end'", fields.get("block_end"))
    if not 0 <= start <= end:
        malformed(path, f"the block from {start} to {end} is none")
    return ProducerIdBlock(BrokerId(integer(path, "'broker'", fields.get("broker"))), start, end)
