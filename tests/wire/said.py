"""What recorded requests say, in a form in which two recordings can be compared.

Two runs of one history are never the same bytes. What has to differ is given names here: a broker's epoch becomes the
number of its incarnation, a port "its own", a topic id that travels without a name the name. Whatever is a set to its
reader is sorted: partitions in a request, live brokers. Everything else is kept, also what brokers answered.

What is left out: the greeting of a connection, whose number depends on how often one breaks; a request that got no
answer, of which nobody knows whether it arrived; and what is said to a broker after it has asked for leave, which it
may hear or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from lethe.protocol.kafka.codec import decode_request, decode_response
from lethe.protocol.kafka.control import (
    Addressed,
    ApiKey,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Node,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from lethe.protocol.kafka.queries import DescribeLogDirsRequest, DescribeLogDirsResponse
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from lethe.protocol.vocabulary import Broker, TopicId
from tests.wire.recording import FROM_CONTROLLER, Exchange, Recording

Json = Any
Row = Mapping[str, Json]
_SPLIT: Final = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA, ApiKey.ALTER_PARTITION)
"""What one request says of several partitions, several may say as well."""


class Stream(NamedTuple):
    """Requests whose order is certain: those of one phase between the controller and one broker, in one direction."""

    phase: str
    broker: int
    asks: bool
    """True where the broker asks the controller."""

    def __str__(self) -> str:
        return f"{self.phase}: broker {self.broker} {'asks' if self.asks else 'is told'}"


@dataclass(frozen=True, slots=True)
class Said:
    """One request and its answer."""

    api: ApiKey
    version: int
    head: Row
    """What it says once: the controller's epoch, live brokers, ..."""
    about: Mapping[str, Row] = field(default_factory=dict)
    """What it says of each partition."""
    answer: Row = field(default_factory=dict)
    """`error`, and what was answered of each partition."""

    @property
    def name(self) -> str:
        """`LeaderAndIsr v7`."""
        return f"{''.join(part.capitalize() for part in self.api.name.split('_'))} v{self.version}"

    def lines(self) -> list[str]:
        """As text, a line for each thing that may differ."""
        found = [f"{self.name} {_text(self.head)}"]
        found += [f"    {partition}: {_text(row)}" for partition, row in sorted(self.about.items())]
        return [*found, f"    answered: {_text(self.answer)}"]

    def goes_with(self, later: Said) -> bool:
        """Whether this one and the next one, which is of the same kind, say the same of the cluster: then it does not
        matter which partitions are in which."""
        return (
            self.api in _SPLIT
            and (self.api, self.version, self.head) == (later.api, later.version, later.head)
            and self.answer["error"] == later.answer["error"]
        )


def streams(recording: Recording) -> dict[Stream, list[Said]]:
    """What was said, by stream. Raises ProtocolError where a frame cannot be read."""
    reader = _Reader(recording.exchanges)
    found: dict[Stream, list[Said]] = {}
    leaving: dict[tuple[str, int], None] = {}
    for each in recording.exchanges:
        said = reader.said(each)
        if said is None or (not (asks := each.api not in FROM_CONTROLLER) and (each.phase, each.broker) in leaving):
            continue
        if each.api is ApiKey.CONTROLLED_SHUTDOWN:
            leaving[each.phase, each.broker] = None
        found.setdefault(Stream(each.phase, each.broker, asks), []).append(said)
    return found


def joined(said: Iterable[Said]) -> list[Said]:
    """The same with as few requests as can be: neighbours that go together become one, or as many as there are
    different things said of one partition; the n-th has what was said n-th of each."""
    runs: list[list[Said]] = []
    for each in said:
        if runs and runs[-1][-1].goes_with(each):
            runs[-1].append(each)
        else:
            runs.append([each])
    return [each for run in runs for each in _joined(run)]


def _joined(run: Sequence[Said]) -> list[Said]:
    by_partition: dict[str, list[tuple[Row, Json]]] = {}
    for each in run:
        for name, row in each.about.items():
            told = by_partition.setdefault(name, [])
            if not told or told[-1] != (row, each.answer.get(name)):
                told.append((row, each.answer.get(name)))
    if not by_partition:
        return [run[0]]
    found = []
    for number in range(max(map(len, by_partition.values()))):
        now = {name: told[number] for name, told in sorted(by_partition.items()) if number < len(told)}
        answers = {name: answer for name, (_, answer) in now.items() if answer is not None}
        about = {name: row for name, (row, _) in now.items()}
        found.append(replace(run[0], about=about, answer={"error": run[0].answer["error"], **answers}))
    return found


class _Reader:
    """Reads exchanges in their order; remembers what has been given a name."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._topics: dict[TopicId, str] = {}
        self._incarnations: dict[int, list[int]] = {}
        self._ports: dict[tuple[int, str], int] = {}
        for each in exchanges:
            value = decode_request(each.request).value
            request = value.request if isinstance(value, Addressed) else value
            if isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest):
                self._topics |= {topic.topic_id: topic.topic for topic in request.topics if topic.topic_id is not None}

    def said(self, exchange: Exchange) -> Said | None:
        """What the exchange says; None where it is left out."""
        if exchange.response is None or exchange.api is ApiKey.API_VERSIONS:
            return None
        header, value = decode_request(exchange.request)
        _, response = decode_response(exchange.api, exchange.version, exchange.response)
        request: object = value.request if isinstance(value, Addressed) else value
        epoch: int | None = getattr(value, "broker_epoch", None)
        head: dict[str, Json] = {"client": header.client_id, "incarnation": self._incarnation(exchange.broker, epoch)}
        head |= {name: getattr(request, name) for name in _SAID_ONCE if hasattr(request, name)}
        if isinstance(request, UpdateMetadataRequest):
            head["live brokers"] = sorted(self._broker(broker) for broker in request.live_brokers)
        if isinstance(request, LeaderAndIsrRequest):
            head["live leaders"] = sorted(self._node(node) for node in request.live_leaders)
        return Said(exchange.api, exchange.version, head, self._about(request), self._answer(response))

    def _about(self, request: object) -> dict[str, Row]:
        if isinstance(request, ControlledShutdownRequest | AllocateProducerIdsRequest | DescribeLogDirsRequest):
            return {}
        assert isinstance(
            request, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest | AlterPartitionRequest
        )
        found: dict[str, Row] = {}
        for topic in request.topics:
            topic_id: TopicId | None = getattr(topic, "topic_id", None)
            for row in topic.partitions:
                fields = {name: _plain(value) for name, value in row._asdict().items() if name != "partition"}
                found[f"{self._name(topic.topic, topic_id)}-{row.partition}"] = {**fields, "id": topic_id is not None}
        return found

    def _answer(self, response: object) -> Row:
        match response:
            case LeaderAndIsrResponse(error=error, rows=partitions):
                named = {f"{self._name(row.topic, row.topic_id)}-{row.partition}": row.error for row in partitions}
                return {"error": error, **dict(sorted(named.items()))}
            case StopReplicaResponse(error=error, rows=stopped):
                return {"error": error, **{f"{row.topic}-{row.partition}": row.error for row in sorted(stopped)}}
            case UpdateMetadataResponse(error=error):
                return {"error": error}
            case DescribeLogDirsResponse(error=error, log_dirs=log_dirs):
                return {"error": error, "log_dirs": [log_dir.error for log_dir in log_dirs]}
            case ControlledShutdownResponse(error=error, remaining=remaining):
                return {"error": error, "remaining": sorted(f"{row.topic}-{row.partition}" for row in remaining)}
            case AlterPartitionResponse(error=error, topics=topics):
                rows = {
                    f"{self._name(topic.topic, topic.topic_id)}-{row.partition}": _plain(row[1:])
                    for topic in topics
                    for row in topic.partitions
                }
                return {"error": error, **dict(sorted(rows.items()))}
            case AllocateProducerIdsResponse(error=error, first_id=first_id, id_count=count):
                return {"error": error, "first": first_id, "count": count}
            case _:
                raise TypeError(f"an answer of type {type(response).__name__} is not known here")

    def _name(self, topic: str | None, topic_id: TopicId | None) -> str:
        if topic is not None:
            return topic
        return str(topic_id) if topic_id is None else self._topics.get(topic_id, str(topic_id))

    def _incarnation(self, broker: int, epoch: int | None) -> int | None:
        if epoch is None:
            return None
        known = self._incarnations.setdefault(broker, [])
        if epoch not in known:
            known.append(epoch)
        return known.index(epoch) + 1

    def _broker(self, broker: Broker) -> str:
        endpoints = [
            f"{each.listener}={each.protocol.name}://{each.host}:{self._port(broker.id, each.listener, each.port)}"
            for each in broker.endpoints
        ]
        return " ".join([str(broker.id), *sorted(endpoints), f"rack={broker.rack}"])

    def _node(self, node: Node) -> str:
        return f"{node.id} {node.host}:{self._port(node.id, '', node.port)}"

    def _port(self, member: int, listener: str, port: int) -> str:
        """A member's port is another one in each run, but the same from the beginning to the end."""
        return "its own" if self._ports.setdefault((member, listener), port) == port else "another"


_SAID_ONCE: Final = ("controller_id", "controller_epoch", "broker_id")


def _plain(value: Json) -> Json:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True)
