"""What ZooKeeper's transactions say: each topic's life, who wrote under which epoch, and which promises were broken.

Expectations come from here, not from what the workload believes: a write whose answer was lost did happen or did not.

    promise                                               broken by, for example
    the owner of /controller raises the epoch             /controller_epoch is written 7, then 7
    each epoch's writes are by one session                session B deletes a topic while the epoch is A's
    a topic goes only if it is marked                     /brokers/topics/orders is deleted without its marker
    the marker goes last                                  its marker is deleted while /brokers/topics/orders exists
    a living topic keeps its id and partitions            its znode is written without partition 3
    a leader comes from the ISR, with a new leader epoch  leader 2 follows ISR [1]
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.txn_log import Change, Created, Deleted, SessionClosed, Transaction, Written

CONTROLLER, CONTROLLER_EPOCH = "/controller", "/controller_epoch"
TOPICS, CONFIGS, MARKERS, BROKERS = "/brokers/topics/", "/config/topics/", "/admin/delete_topics/", "/brokers/ids/"
REASSIGN: Final = "/admin/reassign_partitions"
NO_ID: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where ZooKeeper places the replicas of each partition from this moment on; movers are to join or to leave."""

    time_ms: int
    replicas: dict[int, tuple[int, ...]]
    movers: dict[int, frozenset[int]]


@dataclass(slots=True)
class Incarnation:
    """One life of a topic's name. Times are the ZooKeeper leader's, in milliseconds; None: has not happened."""

    name: str
    topic_id: uuid.UUID
    marked_ms: int | None = None
    removed_ms: int | None = None
    placements: list[Placement] = field(default_factory=list)
    moved_from_dead: set[tuple[int, int]] = field(default_factory=set)
    """(partition, broker): the broker's registration was interrupted while a reassignment left it, so its log stays."""
    moving_since: dict[tuple[int, int], int] = field(default_factory=dict)
    """zxid from which on a reassignment concerns this (partition, broker)."""

    @property
    def is_living(self) -> bool:
        return self.marked_ms is None and self.removed_ms is None

    @property
    def replicas(self) -> dict[int, tuple[int, ...]]:
        """The newest placement."""
        return self.placements[-1].replicas

    def may_lack(self, broker: int, partition: int, since_ms: int, until_ms: int) -> bool:
        """Whether at some moment of this time the broker was free to lose its directory of the partition."""
        if self.marked_ms is not None and self.marked_ms <= until_ms:
            return True
        before = [each for each in self.placements if each.time_ms <= since_ms]
        meanwhile = [each for each in self.placements if since_ms < each.time_ms <= until_ms]
        return not before or any(
            broker not in each.replicas.get(partition, ()) or broker in each.movers.get(partition, ())
            for each in (before[-1], *meanwhile)
        )


@dataclass(frozen=True, slots=True)
class Term:
    """One controller epoch: which session wrote it, as which controller."""

    epoch: int
    controller: int
    session: int


@dataclass(slots=True)
class History:
    """Everything that follows from the transactions."""

    incarnations: list[Incarnation] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    """Znodes that exist at the end."""
    expansions: int = 0
    reassignments: int = 0
    """Partitions whose reassignment ended."""

    def living(self) -> dict[str, Incarnation]:
        return {each.name: each for each in self.incarnations if each.is_living}

    def by_id(self) -> dict[uuid.UUID, Incarnation]:
        return {each.topic_id: each for each in self.incarnations}


def read_history(transactions: Iterable[Transaction]) -> History:
    """Play the transactions and judge them."""
    player = _Player()
    for transaction in transactions:
        player.play(transaction)
    return player.history


class _Player:
    def __init__(self) -> None:
        self.history = History()
        self._current: dict[str, Incarnation] = {}
        self._controllers: set[int] = set()
        self._ephemeral: dict[str, int] = {}
        self._states: dict[str, dict[str, Any]] = {}
        self._registered: dict[str, int] = {}
        """zxid of the present registration of each broker, by path."""
        self._holder = -1

    def play(self, transaction: Transaction) -> None:
        gone = {each.path for each in transaction.changes if isinstance(each, Deleted)}
        for change in transaction.changes:
            if isinstance(change, SessionClosed):
                self._close(transaction.session)
                continue
            self._judge_writer(transaction, change)
            self._apply(transaction, change, gone)

    def _close(self, session: int) -> None:
        for path in [path for path, owner in self._ephemeral.items() if owner == session]:
            self._forget(path)

    def _forget(self, path: str) -> None:
        self.history.paths.discard(path)
        self._ephemeral.pop(path, None)
        self._states.pop(path, None)
        self._registered.pop(path, None)

    def _complain(self, transaction: Transaction, what: str) -> None:
        self.history.violations.append(f"zxid {transaction.zxid:#x}: {what}")

    # --- who writes -----------------------------------------------------------------------------------------------

    def _judge_writer(self, transaction: Transaction, change: Change) -> None:
        assert not isinstance(change, SessionClosed)
        if not change.path.startswith((TOPICS, CONFIGS, MARKERS, REASSIGN)):
            return
        states = change.path.endswith("/state") and not isinstance(change, Deleted)
        if not states and transaction.session not in self._controllers:
            return
        term = self.history.terms[-1] if self.history.terms else None
        if term is None or term.session != transaction.session:
            owner = "nobody" if term is None else f"session {term.session:#x} (controller {term.controller})"
            self._complain(
                transaction,
                f"session {transaction.session:#x} writes {change.path} while the controller epoch belongs to {owner}",
            )
        elif states and isinstance(change, Created | Written):
            written = _json(change.data).get("controller_epoch")
            if written != term.epoch:
                self._complain(transaction, f"{change.path} names epoch {written}, and the epoch is {term.epoch}")

    # --- what is written ------------------------------------------------------------------------------------------

    def _apply(self, transaction: Transaction, change: Change, gone: set[str]) -> None:
        match change:
            case Created(path, data, ephemeral):
                self.history.paths.add(path)
                if ephemeral:
                    self._ephemeral[path] = transaction.session
                if path.startswith(BROKERS):
                    self._registered[path] = transaction.zxid
                self._on_data(transaction, path, data)
            case Written(path, data):
                self._on_data(transaction, path, data)
            case Deleted(path):
                self._on_deleted(transaction, path, gone)
                self._forget(path)
            case SessionClosed():
                pass

    def _on_data(self, transaction: Transaction, path: str, data: bytes) -> None:
        if path == CONTROLLER:
            self._controllers.add(transaction.session)
            self._holder = int(_json(data).get("brokerid", -1))
        elif path == CONTROLLER_EPOCH:
            self._on_epoch(transaction, int(data))
        elif path.startswith(MARKERS):
            current = self._current.get(path.removeprefix(MARKERS))
            if current is not None and current.marked_ms is None:
                current.marked_ms = transaction.time_ms
        elif path.startswith(TOPICS) and path.endswith("/state"):
            self._on_state(transaction, path, _json(data))
        elif path.startswith(TOPICS) and "/" not in path.removeprefix(TOPICS):
            self._on_topic(transaction, path.removeprefix(TOPICS), _json(data))

    def _on_epoch(self, transaction: Transaction, epoch: int) -> None:
        terms = self.history.terms
        if terms and epoch <= terms[-1].epoch:
            self._complain(transaction, f"the controller epoch goes from {terms[-1].epoch} to {epoch}")
        if self._ephemeral.get(CONTROLLER) == transaction.session:
            terms.append(Term(epoch, self._holder, transaction.session))
        elif terms:
            self._complain(transaction, f"session {transaction.session:#x} writes epoch {epoch} without /controller")

    def _on_state(self, transaction: Transaction, path: str, state: dict[str, Any]) -> None:
        before = self._states.get(path)
        self._states[path] = state
        leader, isr = state.get("leader", -1), state.get("isr", [])
        if leader >= 0 and leader not in isr:
            self._complain(transaction, f"{path} has leader {leader} and ISR {isr}")
        if before is None:
            return
        rise = state.get("leader_epoch", 0) - before.get("leader_epoch", 0)
        if rise < 0 or (rise == 0 and leader != before.get("leader", -1)):
            self._complain(transaction, f"{path}: the leader epoch falls, or a new leader has the old one")
        if leader >= 0 and leader != before.get("leader", -1) and leader not in before.get("isr", []):
            self._complain(
                transaction, f"{path} has leader {leader} after ISR {before.get('isr')}: unclean election is off"
            )

    def _on_topic(self, transaction: Transaction, name: str, znode: dict[str, Any]) -> None:
        topic_id = _topic_id(znode.get("topic_id"))
        placement = _placement(transaction.time_ms, znode)
        current = self._current.get(name)
        if current is None:
            current = self._current[name] = Incarnation(name, topic_id)
            self.history.incarnations.append(current)
        else:
            self._judge_change(transaction, current, topic_id, placement)
        current.placements.append(placement)
        # A broker that gets the replica again will be told to delete it.
        current.moved_from_dead -= {(number, broker) for number, some in placement.replicas.items() for broker in some}
        movers = {(partition, broker) for partition, some in placement.movers.items() for broker in some}
        current.moving_since = {each: current.moving_since.get(each, transaction.zxid) for each in sorted(movers)}

    def _judge_change(
        self, transaction: Transaction, current: Incarnation, topic_id: uuid.UUID, placement: Placement
    ) -> None:
        if topic_id != current.topic_id:
            self._complain(transaction, f"topic {current.name} changes its id from {current.topic_id} to {topic_id}")
        lost = sorted(current.replicas.keys() - placement.replicas.keys())
        if lost and current.marked_ms is None:
            self._complain(transaction, f"topic {current.name} loses partitions {lost} from its znode")
        if len(placement.replicas) > len(current.replicas):
            self.history.expansions += 1
        for partition, before in current.replicas.items():
            left = set(before) - set(placement.replicas.get(partition, before))
            if left:
                self.history.reassignments += 1
            for broker in left:
                since = current.moving_since.pop((partition, broker), transaction.zxid)
                registered = self._registered.get(f"{BROKERS}{broker}")
                if registered is None or registered > since:
                    current.moved_from_dead.add((partition, broker))

    def _on_deleted(self, transaction: Transaction, path: str, gone: set[str]) -> None:
        if path.startswith(MARKERS):
            name = path.removeprefix(MARKERS)
            if TOPICS + name in self.history.paths and TOPICS + name not in gone:
                self._complain(transaction, f"the marker of topic {name} goes before its znode")
        elif path.startswith((TOPICS, CONFIGS)):
            name = path.removeprefix(TOPICS).removeprefix(CONFIGS).partition("/")[0]
            current = self._current.get(name)
            if current is not None and current.marked_ms is None:
                self._complain(transaction, f"{path} is deleted, and topic {name} was not marked for deletion")
            if path == TOPICS + name and current is not None:
                current.removed_ms = transaction.time_ms
                del self._current[name]


def _placement(time_ms: int, znode: dict[str, Any]) -> Placement:
    replicas = {int(number): tuple(map(int, brokers)) for number, brokers in znode.get("partitions", {}).items()}
    adding, removing = znode.get("adding_replicas", {}), znode.get("removing_replicas", {})
    numbers = {*adding, *removing}
    movers = {int(each): frozenset([*adding.get(each, ()), *removing.get(each, ())]) for each in numbers}
    return Placement(time_ms, replicas, movers)


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _topic_id(text: object) -> uuid.UUID:
    return decode_topic_id(text) if isinstance(text, str) else NO_ID


def decode_topic_id(text: str) -> uuid.UUID:
    """Return the id that Kafka writes in URL-safe base64 without padding. Raises ValueError."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
