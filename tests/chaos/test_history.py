"""Each promise is broken once, and must be called broken; one lawful life breaks none."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Sequence

import pytest

from tests.chaos.history import History, read_history
from tests.chaos.txn_log import Change, Created, Deleted, SessionClosed, Transaction, Written

X, Y = uuid.UUID(int=1), uuid.UUID(int=2)
FIRST, SECOND, TOOL, BROKER = 0xA, 0xB, 0xC, 0xD
ORDERS, STATE = "/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state"
MARK, CONFIG = "/admin/delete_topics/orders", "/config/topics/orders"


def topic(topic_id: uuid.UUID = X, partitions: dict[int, list[int]] | None = None, **movers: object) -> bytes:
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return json.dumps({"topic_id": text, "partitions": partitions or {"0": [1, 2]}, **movers}).encode()


def state(epoch: int, leader: int = 1, isr: tuple[int, ...] = (1, 2), leader_epoch: int = 0) -> bytes:
    said = {"controller_epoch": epoch, "leader": leader, "leader_epoch": leader_epoch, "isr": isr}
    return json.dumps(said).encode()


def elected(session: int, epoch: int, controller: int = 1001) -> tuple[int, list[Change]]:
    holder = json.dumps({"brokerid": controller}).encode()
    return session, [Created("/controller", holder, ephemeral=True), Written("/controller_epoch", str(epoch).encode())]


def created(topic_id: uuid.UUID = X, partitions: dict[int, list[int]] | None = None) -> tuple[int, list[Change]]:
    return TOOL, [Created(CONFIG, b"{}", False), Created(ORDERS, topic(topic_id, partitions), False)]


def marked() -> tuple[int, list[Change]]:
    return TOOL, [Created(MARK, b"", False)]


def removed(session: int = FIRST) -> tuple[int, list[Change]]:
    return session, [Deleted(STATE), Deleted(ORDERS), Deleted(CONFIG), Deleted(MARK)]


def registered(broker: int, session: int = BROKER) -> tuple[int, list[Change]]:
    return session, [Created(f"/brokers/ids/{broker}", b"{}", ephemeral=True)]


def played(*steps: tuple[int, Sequence[Change]]) -> History:
    return read_history(
        Transaction(zxid, 1_000 * zxid, session, tuple(changes)) for zxid, (session, changes) in enumerate(steps, 1)
    )


def in_service(session: int = FIRST, epoch: int = 1) -> tuple[int, list[Change]]:
    return session, [Created(STATE, state(epoch), False)]


def states(first: bytes, second: bytes) -> list[tuple[int, list[Change]]]:
    return [(FIRST, [Created(STATE, first, False)]), (FIRST, [Written(STATE, second)])]


def test_a_lawful_life_and_its_next_incarnation_break_nothing() -> None:
    history = played(
        elected(FIRST, 1),
        created(),
        in_service(),
        (TOOL, [Written(ORDERS, topic(partitions={0: [1, 2], 1: [2, 3]}))]),
        marked(),
        (FIRST, [SessionClosed()]),
        elected(SECOND, 2, 1002),
        (SECOND, [Written(STATE, state(2, 2, (2,), 1))]),
        removed(SECOND),
        created(Y),
    )
    assert history.violations == []
    assert [(each.name, each.topic_id, each.is_living) for each in history.incarnations] == [
        ("orders", X, False),
        ("orders", Y, True),
    ]
    assert [(term.epoch, term.controller) for term in history.terms] == [(1, 1001), (2, 1002)]
    assert history.expansions == 1
    first = history.incarnations[0]
    assert (first.marked_ms, first.removed_ms) == (5_000, 9_000)


@pytest.mark.parametrize(
    "steps,words",
    [
        pytest.param([elected(FIRST, 2), elected(SECOND, 2)], "epoch goes from 2 to 2", id="the epoch stands still"),
        pytest.param(
            [elected(FIRST, 1), created(), marked(), elected(SECOND, 2), removed(FIRST)],
            "epoch belongs to session 0xb",
            id="a deposed controller deletes",
        ),
        pytest.param(
            [elected(FIRST, 1), elected(SECOND, 2), created(), in_service(FIRST)],
            "epoch belongs to session 0xb",
            id="a deposed controller writes a state",
        ),
        pytest.param(
            [elected(FIRST, 1), created(), in_service(TOOL)], "epoch belongs to", id="a foreign session writes a state"
        ),
        pytest.param(
            [elected(FIRST, 1), elected(SECOND, 2), (FIRST, [Written("/controller_epoch", b"3")])],
            "writes epoch 3 without /controller",
            id="a deposed controller raises the epoch",
        ),
        pytest.param([elected(FIRST, 1), created(), in_service(epoch=2)], "names epoch 2", id="an epoch ahead"),
        pytest.param([elected(FIRST, 2), created(), in_service(epoch=1)], "names epoch 1", id="an epoch behind"),
        pytest.param([elected(FIRST, 1), created(), removed()], "was not marked", id="nobody asked for it"),
        pytest.param(
            [elected(FIRST, 1), created(), (FIRST, [Deleted(CONFIG)])], "was not marked", id="its configuration goes"
        ),
        pytest.param(
            [elected(FIRST, 1), created(), marked(), (FIRST, [Deleted(MARK)])],
            "goes before its znode",
            id="the marker goes first",
        ),
        pytest.param(
            [created(partitions={0: [1], 1: [2]}), (TOOL, [Written(ORDERS, topic(partitions={0: [1]}))])],
            "loses partitions [1]",
            id="an expansion is lost",
        ),
        pytest.param(
            [elected(FIRST, 1), created(), in_service(), (FIRST, [Written(STATE, state(1, 2, (1,)))])],
            "has leader 2 and ISR [1]",
            id="a leader outside its ISR",
        ),
        pytest.param(
            [elected(FIRST, 1), created(), *states(state(1, 1, (1,)), state(1, 2, (2,), 1))],
            "has leader 2 after ISR [1]",
            id="an unclean election",
        ),
        pytest.param(
            [elected(FIRST, 1), created(), *states(state(1, leader_epoch=3), state(1, leader_epoch=2))],
            "the leader epoch falls",
            id="a leader epoch falls",
        ),
        pytest.param(
            [elected(FIRST, 1), created(), *states(state(1, 1), state(1, 2))],
            "a new leader has the old one",
            id="a leader epoch stands still",
        ),
        pytest.param([created(), (TOOL, [Written(ORDERS, topic(Y))])], "changes its id", id="another id"),
    ],
)
def test_each_broken_promise_is_found(steps: list[tuple[int, list[Change]]], words: str) -> None:
    assert any(words in violation for violation in played(*steps).violations)


def test_a_move_from_a_broker_that_was_away_meanwhile_leaves_its_log_and_one_from_a_live_broker_does_not() -> None:
    moved = (FIRST, [Written(ORDERS, topic(partitions={0: [3, 2]}))])
    there = played(elected(FIRST, 1), registered(1), created(), moved)
    away = played(elected(FIRST, 1), registered(1), created(), (BROKER, [SessionClosed()]), moved)
    moving = (FIRST, [Written(ORDERS, topic(partitions={0: [3, 2, 1]}, removing_replicas={"0": [1]}))])
    bounced: list[tuple[int, list[Change]]] = [(BROKER, [SessionClosed()]), registered(1, BROKER + 1)]
    back = played(elected(FIRST, 1), registered(1), created(), moving, *bounced, moved)
    before = played(elected(FIRST, 1), registered(1), created(), *bounced, moving, moved)
    assert (there.reassignments, there.incarnations[0].moved_from_dead) == (1, set())
    assert (away.reassignments, away.incarnations[0].moved_from_dead) == (1, {(0, 1)})
    assert back.incarnations[0].moved_from_dead == {(0, 1)}
    assert before.incarnations[0].moved_from_dead == set()
    again = (FIRST, [Written(ORDERS, topic(partitions={0: [1, 2]}))])
    returned = played(elected(FIRST, 1), created(), moved, registered(1), again, moved)
    assert returned.incarnations[0].moved_from_dead == set()


def test_a_broker_may_lack_a_directory_once_its_topic_is_marked_or_it_leaves() -> None:
    moving = topic(partitions={0: [1, 2, 3]}, adding_replicas={"0": [3]}, removing_replicas={"0": [1]})
    history = played(created(), (FIRST, [Written(ORDERS, moving)]), marked())
    orders = history.incarnations[0]
    assert not orders.may_lack(1, 0, 1_500, 1_500)
    assert orders.may_lack(3, 0, 1_500, 1_500), "not yet placed there"
    assert orders.may_lack(1, 0, 2_500, 2_500), "it is to leave"
    assert not orders.may_lack(2, 0, 2_500, 2_500)
    assert orders.may_lack(2, 0, 3_500, 3_500), "marked"


def test_a_broker_may_have_lacked_it_between_two_looks() -> None:
    away = (FIRST, [Written(ORDERS, topic(partitions={0: [2, 3]}))])
    back = (FIRST, [Written(ORDERS, topic(partitions={0: [1, 2]}))])
    orders = played(created(), away, back).incarnations[0]
    assert not orders.may_lack(1, 0, 3_100, 3_500), "it is back"
    assert orders.may_lack(1, 0, 1_500, 3_500), "and was away meanwhile"
    assert not orders.may_lack(2, 0, 1_500, 3_500)
