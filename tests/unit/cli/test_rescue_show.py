"""What a rescue says before it begins and in the end, and with which exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lethe.admin.forgetting import NotBegun, UnseenDeletion
from lethe.admin.outcomes import Outcome
from lethe.admin.refusal import Exit
from lethe.admin.rescue_control import ControlStage
from lethe.admin.rescue_limits import PAUSED
from lethe.admin.rescue_run import ControlPeriod, RescueResult
from lethe.admin.rescue_snapshot import ElectionRate, RescueSnapshot
from lethe.admin.topic_znodes import ActiveController
from lethe.cli.rescue_show import before, data_of, ended, plan
from lethe.protocol.causes import CauseKind
from lethe.protocol.remedies import BRING_BACK
from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper.operations import Stat
from lethe.protocol.zookeeper.znodes import ControllerZnode, DeletionsPaused
from lethe.survey.broker_settings import BrokerSettings
from lethe.survey.causes import ObservedCause
from lethe.survey.evidence import DeletionHolds, Evidence
from lethe.survey.explain import CLEAN, DeletionVerdict, Explanation
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    Problem,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)

KAFKA = ActiveController(
    ControllerZnode(BrokerId(2), 0), Stat(czxid=1, mzxid=1, version=0, ephemeral_owner=9, num_children=0)
)
SILENT = BrokerAnswers(BrokerId(2), unseen=(UnansweredQuestion(BrokerFailure.SILENT, "silent"),))
ANSWERING = BrokerAnswers(BrokerId(2), {}, log_dirs=())
UNASKED = BrokerAnswers(BrokerId(2), unseen=(UnansweredQuestion(BrokerFailure.UNASKED, "it has no listener SSL"),))
CALM = ElectionRate(0, 2_000)
WAITING = Explanation(
    "orders", DeletionVerdict.WAITING, (ObservedCause(CauseKind.BROKER_TO_RETURN, BrokerId(4)),), (), 4_000
)
GONE = Explanation("invoices", DeletionVerdict.GONE)


def look(*found: Explanation, **changes: Any) -> RescueSnapshot:
    evidence = Evidence(Survey(10_000, 1, ZooKeeperTree(), (ANSWERING,)), tuple(each.topic for each in found))
    return replace(RescueSnapshot(evidence, found, KAFKA, (), (), CALM), **changes)


def end(*found: Explanation, election_rate: ElectionRate = CALM, seen: Survey | None = None, **changes: Any) -> Any:
    control = ControlPeriod(BrokerId(1000), BrokerId(2), BrokerId(3), 1_300, election_rate)
    said: dict[str, Any] = {"interrupted": False, "timed_out": False, "quarantined": (), "even_if_disabled": False}
    last = look(*found)
    if seen is not None:
        last = replace(last, evidence=replace(last.evidence, survey=seen))
    return ended(RescueResult(look(*found), last, changes.pop("control", control), **(said | changes)))


def test_who_is_in_control_is_said_first() -> None:
    assert before(look(), even_if_disabled=False) == [
        "Controller 2 of Kafka controls the cluster and answers.",
        "No topic is marked for deletion.",
    ]
    assert before(look(holder=None), even_if_disabled=False)[0] == "No controller is active."
    lethe = ActiveController(ControllerZnode(BrokerId(9), 0, admin="http://h:1"), KAFKA.stat)
    assert "one of Lethe's" in before(look(holder=lethe), even_if_disabled=False)[0]
    asleep = replace(look().evidence, survey=Survey(10_000, 1, ZooKeeperTree(), (SILENT,)))
    assert "does not answer" in before(look(evidence=asleep), even_if_disabled=False)[0]


@pytest.mark.parametrize(
    "answers, tree, answered, said",
    [
        ((ANSWERING,), ZooKeeperTree(), True, " and answers."),
        ((SILENT,), ZooKeeperTree(), False, " and does not answer."),
        ((), ZooKeeperTree(), None, "; whether it answers was not seen: it is not registered."),
        (
            (),
            ZooKeeperTree(problems=(Problem("/brokers/ids", "NO_AUTH"),)),
            None,
            "; whether it answers was not seen: its registration cannot be read.",
        ),
        ((UNASKED,), ZooKeeperTree(), None, "; whether it answers was not seen: it has no listener SSL."),
    ],
)
def test_a_controller_that_was_not_asked_is_not_said_to_answer(
    answers: tuple[BrokerAnswers, ...], tree: ZooKeeperTree, answered: bool | None, said: str
) -> None:
    seen = look()
    seen = replace(seen, evidence=replace(seen.evidence, survey=Survey(10_000, 1, tree, answers)))
    assert before(seen, even_if_disabled=False)[0] == f"Controller 2 of Kafka controls the cluster{said}"
    data: Any = data_of(seen, even_if_disabled=False, dry_run=True)
    assert data["holder"]["answers"] is answered


def test_each_topic_has_its_causes_and_what_is_to_be_expected() -> None:
    lines = before(look(WAITING, zombies=(TopicPartition("ghost", 1),)), even_if_disabled=False)
    assert lines[1:3] == [
        "orders: marked for deletion 6 s ago, will keep waiting.",
        f"    waits for broker 4, which is not registered in ZooKeeper -> {BRING_BACK.format(broker=4)}",
    ]
    assert "ghost-1" in lines[3]


def test_a_pause_is_said_before_the_topics() -> None:
    seen = look(WAITING)
    paused = replace(seen.evidence, holds=DeletionHolds(DeletionsPaused(1_000, "audit")))
    assert before(replace(seen, evidence=paused), even_if_disabled=False)[1] == PAUSED
    assert PAUSED not in before(seen, even_if_disabled=False)


def test_controllers_that_take_turns_are_noticed() -> None:
    assert "51 times in 1.3 s" in before(look(election_rate=ElectionRate(51, 1_300)), even_if_disabled=False)[1]
    assert not ElectionRate(2, 1_300).are_too_many
    unseen = "How often control changes hands is unknown, because /controller_epoch cannot be read or understood."
    assert before(look(election_rate=ElectionRate(None, 1_300)), even_if_disabled=False)[1] == unseen


@pytest.mark.parametrize(
    "seen,code",
    [
        (look(), Exit.OK),
        (look(GONE), Exit.OK),
        (look(WAITING), Exit.NO),
        (look(replace(GONE, verdict=DeletionVerdict.UNSEEN)), Exit.UNREACHABLE),
        (look(zombies=(TopicPartition("ghost", 1),)), Exit.NO),
        (look(election_rate=ElectionRate(51, 1_300)), Exit.NO),
        (look(election_rate=ElectionRate(None, 1_300)), Exit.UNREACHABLE),
    ],
)
def test_dry_run_says_with_its_code_whether_something_is_stuck(seen: RescueSnapshot, code: Exit) -> None:
    assert plan(seen, even_if_disabled=False, lines=()).exit is code


def test_end_of_a_rescue() -> None:
    answer = end(GONE, WAITING)
    assert answer.exit is Exit.NO
    assert answer.lines[0] == (
        "1 of 2 topics are gone. "
        "The rescue had control for 1.3 s: it was taken from controller 2, and controller 3 has it now."
    )
    assert f"invoices is gone: {CLEAN}." in answer.lines
    assert "orders remains:" in answer.lines
    assert answer.data["finished"] == ["invoices"]
    assert answer.data["remaining"] == ["orders"]
    assert answer.data["control"]["handed_to"] == 3


@pytest.mark.parametrize(
    "stage, before, said",
    [
        (
            ControlStage.TAKEN,
            BrokerId(2),
            "Control was handed back before the rescue had loaded the cluster: it was taken from controller 2",
        ),
        (
            ControlStage.NOT_SEEN,
            None,
            "The rescue ended before it had seen that control was taken",
        ),
    ],
)
def test_end_of_a_rescue_that_was_interrupted_before_it_was_in_control(
    stage: ControlStage, before: BrokerId | None, said: str
) -> None:
    control = ControlPeriod(BrokerId(1000), before, BrokerId(3), 0, CALM, stage)
    answer = end(WAITING, interrupted=True, control=control)
    assert answer.lines[:2] == ("Interrupted.", f"0 of 1 topic is gone. {said}, and controller 3 has it now.")
    assert answer.data["control"]["stage"] == stage.name.lower()


def test_end_of_a_rescue_names_brokers_whose_disks_were_not_seen() -> None:
    dead = TopicTree("dead", assignments={0: ReplicaAssignment((4,))})
    tree = ZooKeeperTree(topics={"dead": dead})
    unseen = replace(GONE, verdict=DeletionVerdict.UNSEEN)
    reclaimed = replace(
        unseen, causes=(ObservedCause(CauseKind.RECLAIMING, BrokerId(1), path="/d/invoices-0.x-delete"),)
    )
    away = "broker 4 is not registered, and its disks were not seen"
    for found, more in ((unseen, ""), (reclaimed, "; brokers have yet to remove the bytes")):
        lines = end(found, seen=Survey(10_000, 1, tree)).lines
        assert lines[1] == f"invoices is gone as far as could be seen: ZooKeeper is clean, but {away}{more}."


def test_a_topic_counts_as_gone_only_where_every_place_was_seen() -> None:
    unseen = replace(GONE, topic="orders", verdict=DeletionVerdict.UNSEEN)
    answer = end(GONE, unseen, seen=Survey(10_000, 1, ZooKeeperTree(), (SILENT,)))
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[0].startswith("1 of 2 topics are gone, 1 as far as could be seen. ")
    caches = "the metadata cache and log directories of broker 2 were not seen (silent)"
    assert f"orders is gone as far as could be seen: ZooKeeper is clean, but {caches}." in answer.lines
    assert answer.data["unseen"] == ["orders"]
    assert end(unseen, WAITING).exit is Exit.NO


def test_codes_of_an_end() -> None:
    assert end(GONE).exit is Exit.OK
    assert end(WAITING, timed_out=True).exit is Exit.TIMED_OUT
    assert end(GONE, timed_out=True).exit is Exit.OK
    assert end(GONE, interrupted=True).exit is Exit.INTERRUPTED
    assert end(GONE, election_rate=ElectionRate(20, 100)).exit is Exit.NO, "the next controllers fall over too"
    assert end(GONE, election_rate=ElectionRate(None, 100)).exit is Exit.UNREACHABLE
    left_over = Explanation(
        "orders", DeletionVerdict.LEFT_OVER, (ObservedCause(CauseKind.STORED, BrokerId(4), path="/d/orders-0"),)
    )
    assert end(left_over).exit is Exit.NO


def test_what_cannot_be_understood_is_named() -> None:
    lines = end(GONE, quarantined=("/brokers/topics/odd: no JSON",)).lines
    assert "    /brokers/topics/odd: no JSON" in lines


def test_deletion_that_is_switched_off_is_seen_in_the_brokers_own_words() -> None:
    settings = (BrokerSettings(BrokerId(1), False), BrokerSettings(BrokerId(2), True), BrokerSettings(BrokerId(3)))
    assert look(settings=settings).disabled_on == (1,)


@pytest.mark.parametrize("verdict", [DeletionVerdict.GONE, DeletionVerdict.UNSEEN])
def test_a_name_of_which_there_is_no_trace_is_no_success(verdict: DeletionVerdict) -> None:
    seen = look(replace(GONE, topic="ordes", verdict=verdict), similar={"ordes": ("orders",)})
    said = before(seen, even_if_disabled=False)
    assert said[1].startswith("There is no topic ordes, and no trace of one"), said
    assert said[1].endswith("; did you mean orders?")
    assert ("as far as could be seen" in said[1]) is (verdict is DeletionVerdict.UNSEEN)
    answer = plan(seen, even_if_disabled=False, lines=said)
    assert answer.exit is Exit.NO
    assert isinstance(answer.data, dict)
    assert answer.data["did_you_mean"] == {"ordes": ["orders"]}
    control = ControlPeriod(BrokerId(1000), BrokerId(2), BrokerId(3), 1_300, CALM)
    done = ended(RescueResult(seen, seen, control, (), even_if_disabled=False, interrupted=False, timed_out=False))
    assert done.exit is Exit.NO


def test_topics_whose_bytes_are_on_their_way_are_one_line() -> None:
    causes = [
        ObservedCause(CauseKind.RECLAIMING, BrokerId(1), path=f"/data/t{number}-0.x-delete") for number in range(80)
    ]
    found = [Explanation(f"t{number}", DeletionVerdict.RECLAIMING, (cause,)) for number, cause in enumerate(causes)]
    lines = end(*found).lines
    assert lines[0].startswith("80 of 80 topics are gone.")
    (said,) = [line for line in lines[1:] if "gone" in line]
    clean = "ZooKeeper and caches are clean, brokers have yet to remove the bytes"
    assert said == f"80 topics (t0, t1, t2 and 77 more) are gone: {clean}."


def test_marked_topics_that_wait_for_a_forgotten_broker_all_the_same_are_named() -> None:
    said = end(GONE, forgotten=Outcome("3"), waiting_for_forgotten=NotBegun(("bills", "users")))
    assert said.exit is Exit.NO
    assert "Broker 3 is forgotten." in said.lines
    more = "lethe rescue --forget 3 --topic bills ends that."
    assert f"Still marked, and waiting for broker 3: bills, users. {more}" in said.lines
    assert said.data["waiting_for_forgotten"] == ["bills", "users"]


def test_marked_topics_that_were_not_seen_are_not_said_to_wait_for_a_forgotten_broker() -> None:
    unseen = NotBegun((), (UnseenDeletion("bills", "/admin/delete_topics/bills", "NO_AUTH"),))
    said = end(GONE, forgotten=Outcome("3"), waiting_for_forgotten=unseen)
    assert said.exit is Exit.UNREACHABLE
    assert not any("Still marked" in line for line in said.lines)
    line = "Whether the deletion of bills has ended was not seen: /admin/delete_topics/bills cannot be read: NO_AUTH."
    assert line in said.lines
    assert said.data["waiting_for_forgotten"] == []
    assert said.data["waiting_for_forgotten_unseen"] == [
        {"topic": "bills", "path": "/admin/delete_topics/bills", "why": "NO_AUTH"}
    ]
