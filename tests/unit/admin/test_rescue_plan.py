"""What a rescue can do about a topic, when it has done what it can, and what it speaks with brokers."""

from __future__ import annotations

import pytest

from lethe.admin.refusal import Exit, Refusal
from lethe.admin.rescue_control import FIRST_ID, free_id
from lethe.admin.rescue_plan import ExpectedResult, RescueProgress, is_to_be_deleted, outlook, outlook_counts, to_mark
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.versions import InterBrokerProtocol, VersionRange
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.broker_settings import BrokerSettings, common_protocol, newest_understood
from lethe.survey.causes import ObservedCause
from lethe.survey.evidence import ControllerReport, ReportedReplica, ReportedTopic
from lethe.survey.explain import DeletionVerdict, Explanation


def waiting(*kinds: CauseKind) -> Explanation:
    return Explanation("orders", DeletionVerdict.WAITING, tuple(map(ObservedCause, kinds)))


@pytest.mark.parametrize(
    "found,expected",
    [
        (waiting(CauseKind.NO_CONTROLLER), ExpectedResult.FINISHES),
        (waiting(CauseKind.CONTROLLER_SILENT), ExpectedResult.FINISHES),
        (waiting(CauseKind.CONTROLLER_LATE), ExpectedResult.FINISHES),
        (waiting(CauseKind.REASSIGNMENT, CauseKind.HALF_DELETED), ExpectedResult.FINISHES),
        (waiting(CauseKind.MARKER_WITHOUT_TOPIC), ExpectedResult.FINISHES),
        (waiting(CauseKind.REASSIGNMENT, CauseKind.BROKER_TO_RETURN), ExpectedResult.WAITS),
        (waiting(CauseKind.CONTROLLER_SILENT, CauseKind.BROKER_SILENT), ExpectedResult.WAITS),
        (waiting(CauseKind.LOG_DIRECTORY), ExpectedResult.WAITS),
        (waiting(CauseKind.REGISTRATION_UNREADABLE), ExpectedResult.WAITS),
        (waiting(CauseKind.READABLE_ZNODE), ExpectedResult.WAITS),
        (waiting(CauseKind.RESUMPTION), ExpectedResult.WAITS),
        (waiting(CauseKind.CONTROLLER_LATE, CauseKind.CONFIGURATION_UNREAD), ExpectedResult.WAITS),
        (waiting(CauseKind.PROTECTED, CauseKind.BROKER_TO_RETURN), ExpectedResult.PROTECTED),
        (waiting(CauseKind.DISABLED), ExpectedResult.NEEDS_WORD),
        (
            Explanation("orders", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.DISABLED),)),
            ExpectedResult.NEEDS_WORD,
        ),
        (
            Explanation("orders", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.NOT_MARKED),)),
            ExpectedResult.NOT_ASKED_FOR,
        ),
        (Explanation("orders", DeletionVerdict.GONE), ExpectedResult.DONE),
        (Explanation("orders", DeletionVerdict.OWED), ExpectedResult.DONE),
        (Explanation("orders", DeletionVerdict.LEFT_OVER, (ObservedCause(CauseKind.STORED),)), ExpectedResult.DONE),
    ],
)
def test_outlook_of_a_topic(found: Explanation, expected: ExpectedResult) -> None:
    assert outlook(found, even_if_disabled=False) is expected


def test_deletion_that_is_switched_off_needs_a_word_and_then_goes_its_way() -> None:
    off = Explanation("orders", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.DISABLED),))
    assert outlook(off, even_if_disabled=True) is ExpectedResult.FINISHES
    assert (
        outlook(waiting(CauseKind.DISABLED, CauseKind.BROKER_TO_RETURN), even_if_disabled=True) is ExpectedResult.WAITS
    )
    unasked = Explanation("orders", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.NOT_MARKED),))
    assert outlook(unasked, even_if_disabled=True) is ExpectedResult.NOT_ASKED_FOR, (
        "the word is for what is switched off"
    )


def test_only_what_is_switched_off_is_marked_by_a_rescue() -> None:
    off = Explanation("orders", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.DISABLED),))
    living = Explanation("kept", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.NOT_MARKED),))
    refused = Explanation("paid", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.REFUSED),))
    marked = Explanation("old", DeletionVerdict.WAITING, (ObservedCause(CauseKind.DISABLED),))
    assert to_mark([off, living, refused, marked, Explanation("none", DeletionVerdict.GONE)]) == ("orders",)


@pytest.mark.parametrize(
    "found,expected",
    [
        (waiting(CauseKind.CONTROLLER_LATE), True),
        (Explanation("orders", DeletionVerdict.IN_PROGRESS), True),
        (Explanation("orders", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.DISABLED),)), True),
        (Explanation("orders", DeletionVerdict.NOT_MARKED, (ObservedCause(CauseKind.NOT_MARKED),)), False),
        (Explanation("orders", DeletionVerdict.RECLAIMING), False),
        (Explanation("orders", DeletionVerdict.GONE), False),
    ],
)
def test_what_an_unreadable_configuration_would_keep_from_deletion(found: Explanation, expected: bool) -> None:
    assert is_to_be_deleted(found) is expected


def test_outlooks_are_counted_in_the_order_of_their_hope() -> None:
    assert [*outlook_counts([ExpectedResult.WAITS, ExpectedResult.FINISHES, ExpectedResult.WAITS]).items()] == [
        (ExpectedResult.FINISHES, 1),
        (ExpectedResult.WAITS, 2),
    ]


# --- progress -----------------------------------------------------------------------------------------------------


def told(*rows: tuple[str, str, str], not_shown: int = 0) -> ControllerReport:
    """(topic, phase, what its one replica waits for)"""
    return ControllerReport(
        {
            topic: ReportedTopic(topic, phase=phase, replicas=(ReportedReplica(CauseKind[waits], 0, 1),))
            for topic, phase, waits in rows
        },
        not_shown=not_shown,
    )


def test_it_is_over_at_once_where_nothing_is_left() -> None:
    progress = RescueProgress(None, patience_ms=20_000)
    assert progress.note(told(("orders", "started", "ANSWER")), 0)
    assert not progress.is_over(19_999)
    assert progress.note(told(), 20_000)
    assert progress.is_over(20_000)
    assert progress.left == ()


def test_patience_begins_anew_with_every_change() -> None:
    progress = RescueProgress(None, patience_ms=20_000)
    progress.note(told(("orders", "started", "ANSWER"), ("kept", "queued", "TURN")), 0)
    assert not progress.note(told(("orders", "started", "ANSWER"), ("kept", "queued", "TURN")), 15_000)
    assert progress.note(told(("orders", "started", "ANSWER")), 19_000)
    assert not progress.is_over(38_999)
    assert progress.is_over(39_000)
    assert progress.left == ("orders",)


def test_what_does_not_come_is_not_waited_for_long() -> None:
    progress = RescueProgress(None, patience_ms=20_000)
    progress.note(told(("orders", "started", "BROKER_TO_RETURN"), ("done", "acknowledged", "DONE")), 0)
    assert not progress.is_over(1_999)
    assert progress.is_over(2_000)
    hasty = RescueProgress(None, patience_ms=500)
    hasty.note(told(("orders", "started", "BROKER_TO_RETURN")), 0)
    assert hasty.is_over(500)


def test_topics_that_were_not_chosen_do_not_count() -> None:
    progress = RescueProgress(frozenset({"orders"}), patience_ms=20_000)
    progress.note(told(("invoices", "held", "NOT_CHOSEN"), ("orders", "started", "ANSWER")), 0)
    assert progress.left == ("orders",)
    progress.note(told(("invoices", "held", "NOT_CHOSEN")), 1)
    assert progress.is_over(1)


def test_topics_that_the_controller_does_not_list_are_left_all_the_same() -> None:
    progress = RescueProgress(None, patience_ms=20_000)
    progress.note(told(not_shown=7), 0)
    assert not progress.is_over(1_999)
    progress.note(told(not_shown=6), 1_000)
    assert not progress.is_over(2_500)


# --- means --------------------------------------------------------------------------------------------------------


def test_id_of_the_rescuer_is_no_brokers() -> None:
    assert free_id(()) == FIRST_ID
    assert free_id((1, 2, FIRST_ID, FIRST_ID + 1)) == FIRST_ID + 2


def test_protocol_that_all_brokers_understand() -> None:
    named = [InterBrokerProtocol.parse(text) for text in ("3.9", "2.5")]
    settings = [BrokerSettings(BrokerId(n), inter_broker_protocol=each) for n, each in enumerate(named)]
    assert common_protocol([*settings, BrokerSettings(BrokerId(3), problem="silent")]) == named[1]
    assert common_protocol([BrokerSettings(BrokerId(3), problem="silent")]) is None


@pytest.mark.parametrize(
    "leader_and_isr,update_metadata,stop_replica,expected",
    [(7, 8, 4, "3.9-IV0"), (4, 6, 2, "2.5-IV0"), (5, 7, 3, "3.1-IV0"), (2, 5, 1, "2.3-IV1")],
)
def test_protocol_of_a_broker_that_tells_only_its_versions(
    leader_and_isr: int, update_metadata: int, stop_replica: int, expected: str
) -> None:
    offered = {
        int(ApiKey.LEADER_AND_ISR): VersionRange(0, leader_and_isr),
        int(ApiKey.UPDATE_METADATA): VersionRange(0, update_metadata),
        int(ApiKey.STOP_REPLICA): VersionRange(0, stop_replica),
    }
    found = newest_understood(offered)
    assert found is not None
    assert str(found) == expected
    assert newest_understood({}) is None


def test_codes_are_those_that_the_help_promises() -> None:
    assert (Exit.OK, Exit.NO, Exit.TIMED_OUT, Exit.INTERRUPTED) == (0, 1, 4, 130)
    assert Refusal("x").exit is Exit.NO
