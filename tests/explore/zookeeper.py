"""ZooKeeper in the small world: the model of `tests.fakes`, as numbered states and pure functions between them.

Two states are one if sessions, watches and znodes are equal in all that anybody can read later on. What differs without
being read is made equal: zxids are those of the creations that matter (`stamp`), times are START_MS. A session has the
number of its process, of which there is at most one at a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, MultiOutcome, Operation, Read, ReadOutcome
from tests.explore.canonical import DUE_MS, START_MS
from tests.explore.interning import Numbers
from tests.explore.trash import Standing, TrashView, view_of
from tests.fakes.zookeeper_model import Fired, Znode, ZooKeeperModel

OPERATOR: Final = 99
FIRST, AGAIN, LATER = 100, 150, 200
"""The zxids by which creations of the topic are told apart: of A, of A by a controller, of B."""
_DUE: Final = str(DUE_MS).encode()
_START: Final = str(START_MS).encode()


class SmallModel(ZooKeeperModel):
    """The model, with sessions of given numbers and nothing in it that only history explains."""

    def __init__(self) -> None:
        super().__init__(lambda: START_MS)

    def copy(self) -> SmallModel:
        """Return an independent model in the same state."""
        other = SmallModel()
        other.__dict__.update(super().copy().__dict__)
        return other

    def open_as(self, session: int) -> None:
        """Open the session with this number, which must not be alive."""
        self._last_session = session - 1
        self.open_session()

    def settle(self) -> None:
        """Make equal what nobody can tell apart."""
        self.zxid = self._last_session = 0
        for change in self.children(paths.CONFIG_CHANGES):
            # Brokers have watches for these notifications, and controllers ignore those about topics.
            self._take(f"{paths.CONFIG_CHANGES}/{change}")
        for path, node in self._nodes.items():
            if node.mzxid or node.pzxid or node.creations:
                self._nodes[path] = _settled(path, node)

    def form(self) -> Hashable:
        """Return a value that is equal for equal states."""
        return (
            tuple(
                sorted((path, node.data, node.version, node.czxid, node.owner) for path, node in self._nodes.items())
            ),
            tuple(sorted(self._ephemerals)),
            tuple(sorted((path, tuple(sorted(each))) for path, each in self._data_watches.items())),
            tuple(sorted((path, tuple(sorted(each))) for path, each in self._child_watches.items())),
        )


def _settled(path: str, node: Znode) -> Znode:
    matters = paths.broker_of(path) is not None or paths.topic_of(path) is not None
    data = node.data and node.data.replace(_DUE, _START)
    return node._replace(data=data, czxid=node.czxid if matters else 0, mzxid=0, pzxid=0, creations=0)


class View(NamedTuple):
    """What the checks need of a state."""

    sessions: tuple[int, ...]
    topic_id: TopicId | None
    """That of the topic's znode, if there is one."""
    has_topic: bool
    is_marked: bool
    epoch_version: int
    registered: tuple[tuple[BrokerId, BrokerEpoch], ...]
    debts: tuple[tuple[BrokerId, TopicId | None], ...]
    has_request: bool
    """Something is requested for the topic, and the controller has not answered."""
    trash: TrashView

    @property
    def standing(self) -> Standing:
        return Standing(self.topic_id, self.has_topic, self.is_marked, self.trash)


class Done(NamedTuple):
    """The state after a request, its answer, and the watches that went off."""

    state: int
    outcome: MultiOutcome
    fired: tuple[Fired, ...] = ()


class ZooKeeper:
    """All states of ZooKeeper met so far."""

    def __init__(self, topic: str, brokers: Sequence[BrokerId]) -> None:
        self._topic = topic
        self._brokers = tuple(brokers)
        self._models: dict[int, SmallModel] = {}
        self._numbers: Numbers[Hashable] = Numbers()
        self.multi = lru_cache(None)(self._multi)
        self.read = lru_cache(None)(self._read)
        self.close = lru_cache(None)(self._close)
        self.open = lru_cache(None)(self._open)
        self.view = lru_cache(None)(self._view)

    def __len__(self) -> int:
        return len(self._numbers)

    def empty(self) -> int:
        """Return the state that brokers find when they have created what they create at their start."""
        model = SmallModel()
        model.open_as(OPERATOR)
        for path in paths.PERSISTENT_ROOTS:
            for each in (*paths.ancestors_of(path), path):
                model.multi(OPERATOR, [Create(each, None)])
        return self._number(model)

    def form(self, state: int) -> Hashable:
        return self._numbers[state]

    def _number(self, model: SmallModel) -> int:
        model.settle()
        number = self._numbers.of(model.form())
        self._models.setdefault(number, model)
        return number

    def _multi(self, state: int, session: int, operations: tuple[Operation, ...], stamp: int = AGAIN) -> Done:
        """Apply a multi; `stamp` is the zxid that matters, if it creates what is told apart by that."""
        model = self._models[state].copy()
        model.zxid = stamp - 1
        outcome = model.multi(session, operations)
        fired = tuple(model.take_fired())
        return Done(self._number(model), outcome, fired)

    def _read(self, state: int, session: int, reads: tuple[Read, ...]) -> tuple[int, tuple[ReadOutcome, ...]]:
        model = self._models[state].copy()
        outcomes = tuple(model.read(session, read) for read in reads)
        return self._number(model), outcomes

    def _close(self, state: int, session: int) -> tuple[int, tuple[Fired, ...]]:
        model = self._models[state].copy()
        model.close_session(session)
        fired = tuple(model.take_fired())
        return self._number(model), fired

    def _open(self, state: int, session: int) -> int:
        model = self._models[state].copy()
        model.open_as(session)
        return self._number(model)

    def _view(self, state: int) -> View:
        model = self._models[state]
        topic, epoch = model.node(paths.topic(self._topic)), model.node(paths.controller_epoch())
        trash = view_of(model, self._topic)
        registered = ((broker, model.node(paths.broker_id(broker))) for broker in self._brokers)
        return View(
            model.sessions,
            None if topic is None else znodes.decode_topic(self._topic, topic.data).topic_id,
            topic is not None,
            model.node(paths.delete_topic(self._topic)) is not None,
            -1 if epoch is None else epoch.version,
            tuple((broker, BrokerEpoch(node.czxid)) for broker, node in registered if node is not None),
            tuple((broker, debt.topic_id) for broker in self._brokers for debt in _debts(model, broker)),
            trash.request is not None,
            trash,
        )


def _debts(model: SmallModel, broker: BrokerId) -> Iterator[znodes.Debt]:
    for child in model.children(paths.debts_of(broker)):
        node = model.node(f"{paths.debts_of(broker)}/{child}")
        yield znodes.decode_debt(broker, child, None if node is None else node.data)
