"""`lethe explain`: exit codes, what a backlog looks like, and what is made of a controller's answer."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin.controllers import ask_controller, parse_explanation
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer
from lethe.cli.explain import explained, url_problem
from lethe.cli.explain_watch import is_over, watched
from lethe.protocol.causes import CauseKind
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.survey.evidence import ControllerReport, RefusedDeletion, ReportedReplica, ReportedTopic
from lethe.survey.explain import CLEAN
from lethe.survey.views import NOT_SEEN
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply

NOTHING = "127.0.0.1:1"


@pytest.fixture
async def alone(session: FakeSession) -> FakeSession:
    """A cluster whose brokers are all down."""
    await apply(session, *(Delete(paths.broker_id(broker)) for broker in (1, 2, 3)))
    return session


async def mark(session: FakeSession, *topics: str, replicas: str = "[1]") -> None:
    for topic in topics:
        data = f'{{"version":1,"partitions":{{"0":{replicas}}}}}'.encode()
        await apply(session, Create(paths.topic(topic), data), Create(paths.delete_topic(topic), None))


async def test_nothing_of_it_is_left(alone: FakeSession) -> None:
    answer = await explained(alone, PLAINTEXT_REACH, "orders")
    assert answer.exit is Exit.NO
    assert answer.lines == (f"There is no topic orders, and no trace of one: {CLEAN}.",)


async def test_a_broker_that_is_away_may_still_have_what_is_gone(alone: FakeSession, tmp_path: Path) -> None:
    """What brokers there are is known by other topics alone."""
    await mark(alone, "others", replicas="[7,2]")
    answer = await explained(alone, PLAINTEXT_REACH, "orders")
    assert answer.exit is Exit.UNREACHABLE
    away = "brokers 2, 7 are not registered, and their disks were not seen"
    assert answer.lines == (
        f"There is no topic orders, and no trace of one as far as could be seen: ZooKeeper is clean, but {away}.",
    )
    (unseen,) = answer.tables
    assert unseen.rows == (("broker 2", NOT_SEEN), ("broker 7", NOT_SEEN))
    named: dict[int, list[Path]] = {2: [tmp_path]}
    answer = await explained(alone, PLAINTEXT_REACH, "orders", log_dirs=named)
    assert "broker 7 is not registered, and its disks were not seen" in answer.lines[0]
    (tmp_path / "orders-0").mkdir()
    assert "broker 2 still has" in (await explained(alone, PLAINTEXT_REACH, "orders", log_dirs=named)).lines[0]
    shutil.rmtree(tmp_path / "orders-0")
    answer = await explained(alone, PLAINTEXT_REACH, "orders", log_dirs=named | {7: [tmp_path]})
    assert (answer.exit, answer.lines) == (Exit.NO, (f"There is no topic orders, and no trace of one: {CLEAN}.",))
    await apply(alone, Create(paths.topic("garbled"), b"nonsense"))
    answer = await explained(alone, PLAINTEXT_REACH, "orders", log_dirs=named | {7: [tmp_path]})
    assert answer.exit is Exit.UNREACHABLE
    assert "but /brokers/topics/garbled was not seen (" in answer.lines[0]


@pytest.mark.parametrize("url", ["nonsense", "host:80", "ftp://host:80", "http://", "http://host:99999", "http://h:0"])
def test_an_address_of_a_controller_that_is_none(url: str) -> None:
    assert url_problem(url) == "is not of the form http://HOST:PORT or https://HOST:PORT"
    assert url_problem("http://host:8080") is url_problem("https://[::1]:8443/lethe") is None


async def test_a_marked_topic_without_controller_and_broker(alone: FakeSession) -> None:
    await mark(alone, "orders")
    answer = await explained(alone, PLAINTEXT_REACH, "orders")
    assert answer.exit is Exit.WAITS
    text = "\n".join(answer.lines)
    assert "orders waits for a controller: none is active: start one" in text
    assert "orders waits for broker 1, which is not registered in ZooKeeper: start broker 1 with its disks" in text
    assert "(Concluded from ZooKeeper, caches and disks;" in text
    replicas, unseen = answer.tables
    assert replicas.rows[0][:2] == ("0", "1")
    assert (unseen.title, [row[0] for row in unseen.rows]) == ("Could not be seen", ["broker 1"])


async def test_a_backlog_is_grouped_by_cause(alone: FakeSession) -> None:
    await mark(alone, *(f"t-{n}" for n in range(70)))
    await mark(alone, "other", replicas="[2]")
    answer = await explained(alone, PLAINTEXT_REACH, None)
    causes, topics = answer.tables
    assert [(row[0], row[1][:22]) for row in causes.rows] == [
        ("71", "waits for a controller"),
        ("70", "waits for broker 1, wh"),
        ("1", "waits for broker 2, wh"),
    ]
    assert len(topics.rows) == 50
    assert "the first 50 of 71" in topics.title
    assert answer.lines[0] == "71 topics are marked for deletion: 71 wait, 0 continue."
    assert isinstance(answer.data, dict)
    assert len(answer.data["topics"]) == 71  # type: ignore[arg-type]


async def configure(session: FakeSession, topic: str, value: str) -> None:
    data = f'{{"version":1,"config":{{"remote.storage.enable":"{value}"}}}}'.encode()
    await apply(session, Create(paths.config_topic(topic), data))


async def test_remote_segments_of_marked_topics_are_said_not_to_be_looked_at(alone: FakeSession) -> None:
    await mark(alone, "orders", "local", "off", "garbled")
    await configure(alone, "orders", "true")
    await configure(alone, "off", "false")
    await apply(alone, Create(paths.config_topic("garbled"), b"nonsense"))
    said = "segments in remote storage, which lethe does not look at"
    unknown = "The configuration of garbled cannot be read"
    for topic, expected, tiered in (
        ("orders", [f"orders has {said}"], True),
        ("local", [], False),
        ("off", [], False),
        ("garbled", [unknown], None),
    ):
        answer = await explained(alone, PLAINTEXT_REACH, topic)
        assert [line.partition(":")[0] for line in answer.lines if "remote" in line] == expected
        assert isinstance(answer.data, dict)
        assert [each["remote_storage"] for each in answer.data["topics"]] == [tiered]  # type: ignore[index,union-attr,call-overload]
    answer = await explained(alone, PLAINTEXT_REACH, None)
    line, other = [line for line in answer.lines if "remote" in line]
    assert other == f"{unknown}: it may have segments in remote storage, unseen by lethe."
    assert line.startswith(f"1 topic has {said}: the leader of a partition deletes them")
    assert line.endswith("they stay: orders.")


@pytest.mark.parametrize("value,tiered", [(" TRUE", True), ("False", False), ("yes", None)])
async def test_remote_storage_is_parsed_as_kafka_does(alone: FakeSession, value: str, tiered: bool | None) -> None:
    await mark(alone, "orders")
    await configure(alone, "orders", value)
    answer = await explained(alone, PLAINTEXT_REACH, "orders")
    assert isinstance(answer.data, dict)
    assert [each["remote_storage"] for each in answer.data["topics"]] == [tiered]  # type: ignore[index,union-attr,call-overload]


async def test_no_backlog(alone: FakeSession) -> None:
    answer = await explained(alone, PLAINTEXT_REACH, None)
    assert (answer.exit, answer.lines) == (Exit.OK, ("No topic is marked for deletion.",))
    assert is_over(answer)


async def test_a_controller_that_could_not_be_read_is_not_taken_for_absent(alone: FakeSession) -> None:
    await mark(alone, "orders")
    answer = await explained(forbidding(alone, paths.CONTROLLER), PLAINTEXT_REACH, "orders")
    text = "\n".join(answer.lines)
    assert "orders may wait for a controller: whether one is active is not known" in text
    assert f"/controller cannot be read or understood ({NO_AUTH}): check the ACL and the content of" in text
    assert "none is active" not in text


async def test_markers_that_may_not_be_read_are_not_taken_for_absent(alone: FakeSession) -> None:
    await mark(alone, "orders")
    blind = forbidding(alone, paths.DELETE_TOPICS)
    where = f"is not known: /admin/delete_topics cannot be read ({NO_AUTH})"
    backlog = await explained(blind, PLAINTEXT_REACH, None)
    assert (backlog.exit, backlog.lines) == (Exit.UNREACHABLE, (f"Which topics are marked for deletion {where}.",))
    topic = await explained(blind, PLAINTEXT_REACH, "orders")
    assert (topic.exit, topic.lines[0]) == (Exit.UNREACHABLE, f"Whether orders is marked for deletion {where}.")
    assert "lethe topics delete" not in " ".join(topic.lines)


async def test_a_marker_that_may_not_be_read_is_known_to_the_controller(alone: FakeSession) -> None:
    await mark(alone, "orders")
    row = ReportedReplica(CauseKind.BROKER_TO_RETURN, 0, 1)
    word = ControllerReport({"orders": ReportedTopic("orders", replicas=(row,))}, 3, True)
    answer = await explained(forbidding(alone, paths.DELETE_TOPICS), PLAINTEXT_REACH, "orders", reported=word)
    assert (answer.exit, "orders waits for broker 1" in " ".join(answer.lines)) == (Exit.WAITS, True)


async def test_watching_ends_when_nothing_is_marked(alone: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    await mark(alone, "orders")
    looks = 0

    async def look() -> Answer:
        nonlocal looks
        looks += 1
        if looks == 3:
            await apply(alone, Delete(paths.topic("orders")), Delete(paths.delete_topic("orders")))
        return await explained(alone, PLAINTEXT_REACH, "orders")

    answer = await watched(look, interval_ms=1, as_json=False)
    assert (looks, answer.exit) == (3, Exit.NO)
    assert capsys.readouterr().out.count("orders waits for a controller") == 1


async def test_watching_ends_when_nobody_reads_any_more(alone: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    await mark(alone, "orders")
    reader, writer = os.pipe()
    os.close(reader)
    answers: list[Answer] = []
    # Closing it writes once more what nobody takes.
    with (
        contextlib.suppress(BrokenPipeError),
        open(writer, "w", encoding="utf-8") as closed,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdout", closed)
        answers.append(await watched(lambda: explained(alone, PLAINTEXT_REACH, "orders"), interval_ms=1, as_json=True))
    assert [answer.exit for answer in answers] == [Exit.WAITS]


def test_what_explain_says() -> None:
    row = {"partition": 0, "broker": 3, "state": "ReplicaDeletionStarted", "waiting_for": "answer", "since_ms": 5}
    found = parse_explanation(
        {
            "version": 1, "epoch": 4, "delete_topic_enable": True,
            "topics": [
                {"topic": "t", "marked_since_ms": 2, "phase": "started", "replicas": [row, "?"]}
            ],
        }
    )  # fmt: skip
    replica = ReportedReplica(CauseKind.ANSWER, 0, 3, "ReplicaDeletionStarted", 5)
    assert found.topics == {"t": ReportedTopic("t", 2, "started", None, (replica,))}
    assert (found.epoch, found.deletion_enabled, found.is_known) == (4, True, True)


def test_what_is_said_of_a_topic_that_is_not_marked_and_what_says_nothing() -> None:
    found = parse_explanation(
        {"epoch": 2, "marked": False, "delete_topic_enable": False, "refused": {"at_ms": 7, "why": "no"}}
    )
    assert (found.epoch, found.deletion_enabled, found.refused) == (2, False, RefusedDeletion(7, "no"))
    assert not parse_explanation(["?"]).is_known
    assert parse_explanation({"topics": "?", "not_shown": 7}).not_shown == 7


async def test_a_controller_that_cannot_be_asked_is_a_problem() -> None:
    found = await ask_controller(f"http://{NOTHING}", "orders", 500)
    assert found.problem is not None
    assert NOTHING in found.problem
