"""`lethe topics delete` through brokers: by id, all or none, and done only where every broker was seen."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from lethe.admin.client_changes import delete_topics
from lethe.admin.client_topics import shown_topics
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.deletion_show import Detail
from lethe.cli.topics_delete_brokers import PROTECTION_UNSEEN, BrokersDeletion, brokers_deletion
from lethe.protocol.kafka.admin import DeleteTopicsRequest
from lethe.protocol.kafka.errors import ErrorCode
from tests.fakes.questions import agrees, declines
from tests.fakes.served_cluster import OLD, ServedCluster, cluster_of, topic


def served() -> ServedCluster:
    two = {"orders": topic(1, (1, 2), (2, 1)), "orders.eu": topic(2, (2,)), "bills": topic(3, (1,))}
    return ServedCluster({**two, "__consumer_offsets": topic(4, (1,))})


async def test_topics_are_deleted_by_their_ids(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = served()
    orders = kafka.topics["orders"].topic_id
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("orders",)))
    (asked,) = kafka.requests(DeleteTopicsRequest)
    assert isinstance(asked, DeleteTopicsRequest)
    assert asked.topics == ((None, orders),)
    assert (answer.lines, answer.exit) == (("Topic orders is deleted, says the controller.",), Exit.OK)
    assert answer.data == [
        {
            "topic": "orders",
            "marked": None,
            "was_marked": None,
            "deleted": None,
            "controller_says": "deleted",
            "was_gone": False,
            "problem": None,
            "not_shown": ["marked", "was_marked", "deleted"],
        }
    ]
    assert PROTECTION_UNSEEN in capsys.readouterr().err
    assert "orders" not in kafka.topics


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
async def test_a_right_that_is_missing_is_named_with_who_lacks_it(error: ErrorCode) -> None:
    kafka = served()
    kafka.refusals = {"orders": (error, "Authorization failed.")}
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("orders", "bills")))
    said = f"topic orders is not deleted: {error.name} for User:ANONYMOUS; grant it Delete on topic orders"
    assert said in answer.lines[-1]
    assert answer.exit is Exit.NO
    assert [*kafka.topics] == ["orders", "orders.eu", "__consumer_offsets"]


async def test_a_topic_that_was_made_under_the_name_since_stays() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        shown = await shown_topics(cluster)
        kafka.topics["orders"] = topic(9, (1,))
        asked = await delete_topics(cluster, shown, ["orders"])
    assert [outcome.was_done for outcome in asked.outcomes] == [True]
    assert kafka.topics["orders"] == topic(9, (1,))


async def test_older_controllers_delete_by_name() -> None:
    kafka = served()
    async with cluster_of(kafka, versions=OLD) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("orders",)))
    (asked,) = kafka.requests(DeleteTopicsRequest)
    assert isinstance(asked, DeleteTopicsRequest)
    assert asked.topics == (("orders", None),)
    assert answer.exit is Exit.OK


async def test_the_matches_of_an_expression_are_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="nothing was done"):
            await brokers_deletion(cluster, BrokersDeletion(("orders.*",), confirm=declines))
        assert "  orders\n  orders.eu\n" in capsys.readouterr().err
        assert "orders.eu" in kafka.topics
        await brokers_deletion(cluster, BrokersDeletion(("orders.*",), confirm=agrees))
    assert [*kafka.topics] == ["bills", "__consumer_offsets"]


@pytest.mark.parametrize(
    "expression,words", [("ordes", "does not exist; did you mean orders"), ("__consumer_offsets", "internal to Kafka")]
)
async def test_nothing_is_deleted_where_one_cannot_be(expression: str, words: str) -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match=words):
            await brokers_deletion(cluster, BrokersDeletion(("bills", expression)))
    assert "bills" in kafka.topics
    assert kafka.requests(DeleteTopicsRequest) == []


async def test_if_exists_does_not_take_a_hidden_topic_for_gone() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        gone = await brokers_deletion(cluster, BrokersDeletion(("ordes",), if_exists=True))
        assert gone.lines == ("Nothing to delete.",)
        kafka.hidden = frozenset({"bills"})
        with pytest.raises(Refusal, match="topic 'bills' is not shown, and may exist") as refused:
            await brokers_deletion(cluster, BrokersDeletion(("bills",), if_exists=True))
    assert refused.value.exit is Exit.UNREACHABLE


async def test_a_dry_run_deletes_nothing() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("orders.*",), dry_run=True))
    assert answer.lines == ("Would delete topic orders.", "Would delete topic orders.eu.")
    assert kafka.requests(DeleteTopicsRequest) == []


async def test_refusals_are_told_in_the_words_of_the_controller() -> None:
    kafka = served()
    kafka.refusals = {"bills": (ErrorCode.POLICY_VIOLATION, "Topic bills is protected.")}
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("orders", "bills"), wait=True))
    said = "topic bills is not deleted: POLICY_VIOLATION: Topic bills is protected."
    assert answer.lines == ("Topic orders is deleted, says the controller.", said)
    assert answer.exit is Exit.NO
    data: Any = answer.data
    assert [(each["topic"], each["controller_says"]) for each in data] == [("bills", None), ("orders", "deleted")]
    assert data[0]["problem"] == said


async def test_a_deletion_that_takes_longer_is_not_called_done() -> None:
    kafka = served()
    kafka.stuck = frozenset({"bills"})
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("bills",)))
    assert answer.lines == ("Topic bills is not deleted in the time of the request, and may be later.",)
    assert answer.exit is Exit.TIMED_OUT
    data: Any = answer.data
    assert (data[0]["deleted"], data[0]["controller_says"]) == (None, "timed out")


async def test_a_request_without_an_answer_is_unknown_and_not_sent_again() -> None:
    kafka = served()
    kafka.loses_answers = True
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="whether the controller did delete bills is unknown") as refused:
            await brokers_deletion(cluster, BrokersDeletion(("bills",)))
    assert refused.value.exit is Exit.UNREACHABLE
    assert len(kafka.requests(DeleteTopicsRequest)) == 1


async def test_an_answer_that_is_not_understood_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lethe.admin.client_cluster.MAX_ANSWER_BYTES", 2_000)
    kafka = served()
    kafka.refusals = {"bills": (ErrorCode.POLICY_VIOLATION, "x" * 3_000)}
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="whether the controller did delete bills is unknown") as refused:
            await brokers_deletion(cluster, BrokersDeletion(("bills",)))
    assert refused.value.exit is Exit.UNREACHABLE


async def test_the_controller_is_looked_for_again_after_not_controller() -> None:
    kafka = served()
    kafka.not_controller = 2
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("bills",)))
    assert answer.exit is Exit.OK
    assert len(kafka.requests(DeleteTopicsRequest)) == 3


async def test_a_controller_that_lost_control_may_have_deleted() -> None:
    kafka = served()
    kafka.loses_control = True
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("bills",)))
        assert answer.lines[0].startswith("whether topic bills was deleted is unknown: a controller answered NOT_CONTR")
        assert answer.exit is Exit.UNREACHABLE
        data: Any = answer.data
        assert (data[0]["deleted"], data[0]["controller_says"], data[0]["was_gone"]) == (None, None, False)
    kafka = served()
    kafka.loses_control = True
    async with cluster_of(kafka) as cluster:
        waited = await brokers_deletion(cluster, BrokersDeletion(("bills",), wait=True, timeout_ms=30_000))
        assert waited.exit is Exit.OK, "brokers show that it is gone"
    kafka.not_controller = 10_000
    async with cluster_of(kafka, timeout_ms=600) as cluster:
        with pytest.raises(Refusal, match="whether a controller did delete orders is unknown: .* NOT_CONTROLLER"):
            await brokers_deletion(cluster, BrokersDeletion(("orders",)))
    assert "orders" in kafka.topics


async def test_a_controller_that_clients_do_not_see_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lethe.admin.client_cluster.SEARCH_MS", 0)
    kafka = served()
    kafka.controller = 7
    async with cluster_of(kafka) as cluster:
        with pytest.raises(Refusal, match="the controller 7 is not among the brokers that clients see.*--zookeeper"):
            await brokers_deletion(cluster, BrokersDeletion(("bills",)))
    assert "bills" in kafka.topics


# --- waiting --------------------------------------------------------------------------------------------------------


async def test_waiting_ends_when_no_broker_has_anything() -> None:
    kafka = served()
    async with cluster_of(kafka) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("orders",), wait=True))
    assert answer.exit is Exit.OK
    assert answer.lines[0].startswith("1 of 1 topic deleted after ")
    assert answer.lines[1] == (
        "Brokers' caches and log directories were looked at; markers and znodes are not shown to clients"
    )
    assert answer.tables[0].columns == ("topics", "state", "caches", "logs")
    data: Any = answer.data
    assert (data[0]["deleted"], data[0]["marked"], data[0]["znode"]) == (True, None, None)
    assert data[0]["not_shown"] == ["marked", "znode", "trashed_until_ms", "owed", "unseen_znodes"]
    assert [data[0][name] for name in data[0]["not_shown"]] == [None] * 5


@pytest.mark.parametrize("left", ["cache", "disk"])
async def test_what_a_broker_still_has_is_waited_for_until_the_time_is_over(left: str) -> None:
    kafka = served()
    if left == "cache":
        kafka.stuck = frozenset({"orders"})
    else:
        kafka.still_stored = {2: "orders"}
    async with cluster_of(kafka, timeout_ms=600) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("orders",), wait=True, timeout_ms=600))
    assert answer.exit is Exit.TIMED_OUT
    data: Any = answer.data
    assert data[0]["deleted"] is False
    assert data[0]["stored_by"] == ([1, 2] if left == "cache" else [2])
    assert data[0]["cached_by"] == ([1, 2] if left == "cache" else [])


async def test_a_broker_that_does_not_answer_is_not_clean(unused_tcp_port: int) -> None:
    kafka = served()
    async with cluster_of(kafka, timeout_ms=800) as cluster:
        kafka.ports[3] = unused_tcp_port
        answer = await brokers_deletion(cluster, BrokersDeletion(("bills",), wait=True, timeout_ms=800))
    assert answer.exit is Exit.UNREACHABLE
    assert "1 topic is gone as far as brokers show it, but not every cache and log directory could be seen" in (
        answer.lines
    )
    data: Any = answer.data
    assert (data[0]["deleted"], data[0]["silent"]) == (False, [3])


@pytest.mark.parametrize(
    "controller,error,code",
    [
        (2, ErrorCode.NONE, Exit.OK),
        (2, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Exit.UNREACHABLE),
        (1, ErrorCode.NONE, Exit.UNREACHABLE),
    ],
)
async def test_only_a_controller_may_have_no_log_directories(controller: int, error: int, code: Exit) -> None:
    kafka = ServedCluster({"bills": topic(3, (1,))}, no_log_dirs={2: error}, controller=controller)
    async with cluster_of(kafka, timeout_ms=800) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("bills",), wait=True, timeout_ms=800))
    assert answer.exit is code


async def test_a_broker_with_replicas_that_left_is_not_clean() -> None:
    kafka = served()
    kafka.topics["bills"] = replace(kafka.topics["bills"], replicas=((1, 5),))
    async with cluster_of(kafka, timeout_ms=800) as cluster:
        answer = await brokers_deletion(cluster, BrokersDeletion(("bills",), wait=True, timeout_ms=800))
    assert answer.exit is Exit.UNREACHABLE
    data: Any = answer.data
    assert (data[0]["deleted"], data[0]["absent"]) == (False, [5])
    assert "clients do not see the broker" in data[0]["waits_for"]


async def test_a_new_topic_of_the_name_is_not_what_is_left() -> None:
    kafka = served()

    async def recreated() -> None:
        while "bills" in kafka.topics:
            await asyncio.sleep(0)
        kafka.topics["bills"] = topic(9, (1,))

    async with cluster_of(kafka) as cluster, asyncio.TaskGroup() as tasks:
        tasks.create_task(recreated())
        answer = await brokers_deletion(cluster, BrokersDeletion(("bills",), wait=True, detail=Detail.TOPICS))
    assert answer.exit is Exit.OK
    data: Any = answer.data
    assert data[0]["cached_by"] == []
    assert kafka.topics["bills"] == topic(9, (1,))
