"""Which ISR members a leader proposes, when, and what it makes of the outcome."""

from __future__ import annotations

import pytest

from lethe.broker.core.effects import IsrChange, ProposeIsr, Record
from lethe.broker.core.inputs import BrokerRegistered, IsrOutcome, IsrProposed, IsrVerdict
from lethe.broker.core.isr import MAX_CHANGES_PER_PROPOSAL
from lethe.broker.core.state import AgentState, Settings
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.listener_choice import ListenerChoice
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol, TopicPartition
from tests.unit.broker.core.driver import DELAY_MS, EPOCH, ME, Driver, X, Y, become, live, metadata, stop, tombstone

T0 = TopicPartition("t", 0)
CATCH_UP_MS = 1_000
ALL = (ME, 2, 3)


def leader(
    driver: Driver, isr: tuple[int, ...] = (ME,), *, leader_epoch: int = 0, partitions: tuple[int, ...] = (0,)
) -> None:
    driver.leader_and_isr(become(isr=isr, replicas=ALL, leader_epoch=leader_epoch, partitions=partitions))


def with_brokers(*ids: int) -> Driver:
    driver = Driver()
    driver.update(metadata("other", Y, brokers=live(*ids)))
    return driver


def proposals(driver: Driver) -> list[ProposeIsr]:
    return [effect for effect in driver.effects if isinstance(effect, ProposeIsr)]


def wanted(driver: Driver) -> list[tuple[int, ...]]:
    return [change.isr for proposal in proposals(driver) for change in proposal.changes]


def outcome(driver: Driver, verdict: IsrVerdict, isr: tuple[int, ...] = (), partition_epoch: int = -1) -> None:
    driver.feed(IsrProposed((IsrOutcome(verdict, isr, partition_epoch, "because"),)))


def test_a_new_leader_proposes_its_live_followers_after_the_delay() -> None:
    driver = with_brokers(*ALL)
    leader(driver)
    driver.advance(CATCH_UP_MS - 1)
    assert proposals(driver) == []
    driver.advance(1)
    assert proposals(driver) == [ProposeIsr((IsrChange(T0, X, 0, 0, ALL),), EPOCH, None)]


def test_nothing_is_proposed_where_the_isr_is_whole_or_somebody_else_leads() -> None:
    driver = with_brokers(*ALL)
    leader(driver, ALL)
    driver.leader_and_isr(become("u", Y, leader=2, isr=(2,), replicas=ALL))
    driver.advance(10 * CATCH_UP_MS)
    assert proposals(driver) == []


def test_only_brokers_that_are_live_and_not_listed_as_offline() -> None:
    driver = with_brokers(ME, 2, 3)
    leader(driver)
    driver.update(metadata(brokers=live(ME, 2, 3), offline=(2,)))
    driver.advance(CATCH_UP_MS)
    assert wanted(driver) == [(ME, 3)]


def test_a_member_whose_broker_is_not_there_is_left_out_of_what_is_asked_for() -> None:
    driver = with_brokers(ME, ALL[1])
    leader(driver, (ME, ALL[2]))
    driver.advance(CATCH_UP_MS)
    assert wanted(driver) == [(ME, ALL[1])]


def test_a_follower_whose_broker_comes_back_is_proposed_after_the_delay() -> None:
    driver = with_brokers(ME)
    leader(driver)
    driver.advance(10 * CATCH_UP_MS)
    assert proposals(driver) == []
    driver.update(metadata("other", Y, brokers=live(ME, 3)))
    driver.advance(CATCH_UP_MS - 1)
    assert proposals(driver) == []
    driver.advance(1)
    assert wanted(driver) == [(ME, 3)]


def test_a_follower_that_is_offline_no_more_is_proposed() -> None:
    driver = with_brokers(*ALL)
    leader(driver, (ME, 3))
    driver.update(metadata(brokers=live(*ALL), offline=(2,)))
    driver.advance(10 * CATCH_UP_MS)
    assert proposals(driver) == []
    driver.update(metadata(brokers=live(*ALL)))
    driver.advance(CATCH_UP_MS)
    assert wanted(driver) == [(ME, 3, 2)]


def test_an_assignment_that_grew_is_a_new_beginning() -> None:
    driver = with_brokers(*ALL)
    driver.leader_and_isr(become(isr=(ME, 2), replicas=(ME, 2)))
    driver.advance(10 * CATCH_UP_MS)
    leader(driver, (ME, 2), leader_epoch=1)
    driver.advance(CATCH_UP_MS)
    assert proposals(driver)[0].changes == (IsrChange(T0, X, 1, 0, (ME, 2, 3)),)


def test_all_that_are_due_go_into_one_proposal_and_one_is_in_flight() -> None:
    driver = with_brokers(*ALL)
    leader(driver, partitions=(0, 1, 2))
    driver.advance(CATCH_UP_MS)
    leader(driver, leader_epoch=1)
    driver.advance(CATCH_UP_MS)
    assert [len(proposal.changes) for proposal in proposals(driver)] == [3]
    driver.feed(IsrProposed((IsrOutcome(IsrVerdict.ACCEPTED, ALL, 1),) * 3))
    assert [change.leader_epoch for change in proposals(driver)[1].changes] == [1]


def test_a_proposal_is_bounded() -> None:
    driver = with_brokers(*ALL)
    leader(driver, partitions=tuple(range(MAX_CHANGES_PER_PROPOSAL + 1)))
    driver.advance(CATCH_UP_MS)
    assert len(proposals(driver)[0].changes) == MAX_CHANGES_PER_PROPOSAL


# --- outcomes -----------------------------------------------------------------------------------------------------


def proposing() -> Driver:
    driver = with_brokers(*ALL)
    leader(driver)
    driver.advance(CATCH_UP_MS)
    assert len(proposals(driver)) == 1
    return driver


def test_an_accepted_isr_is_taken_over() -> None:
    driver = proposing()
    outcome(driver, IsrVerdict.ACCEPTED, ALL, 7)
    replica = driver.state.replicas[T0]
    assert (replica.isr, replica.partition_epoch, replica.leader_epoch) == (ALL, 7, 0)
    driver.advance(10 * CATCH_UP_MS)
    assert len(proposals(driver)) == 1


def test_what_is_still_missing_after_acceptance_is_asked_for_again() -> None:
    driver = proposing()
    outcome(driver, IsrVerdict.ACCEPTED, (ME, 2), 7)
    driver.advance(CATCH_UP_MS)
    assert proposals(driver)[1].changes == (IsrChange(T0, X, 0, 7, (ME, 2, 3)),)


def test_what_is_put_back_is_asked_for_again_after_the_delay() -> None:
    driver = proposing()
    outcome(driver, IsrVerdict.PUT_BACK)
    driver.advance(CATCH_UP_MS - 1)
    assert len(proposals(driver)) == 1
    driver.advance(1)
    assert len(proposals(driver)) == 2


def test_what_goes_unanswered_is_asked_anew_with_growing_waits() -> None:
    driver = proposing()
    for count, wait_ms in enumerate((50, 100, 200, 400, 800, 1600, 3200, 5000, 5000), 1):
        outcome(driver, IsrVerdict.UNANSWERED)
        driver.advance(wait_ms - 1)
        assert len(proposals(driver)) == count
        driver.advance(1)
        assert len(proposals(driver)) == count + 1
    outcome(driver, IsrVerdict.PUT_BACK)
    driver.advance(CATCH_UP_MS)
    outcome(driver, IsrVerdict.UNANSWERED)
    before = len(proposals(driver))
    driver.advance(50)
    assert len(proposals(driver)) == before + 1, "an answer ends the series"


def test_a_repeated_question_has_what_holds_by_then() -> None:
    driver = proposing()
    driver.feed(BrokerRegistered(BrokerEpoch(EPOCH + 1)))
    driver.update(metadata("other", Y, brokers=live(ME, 2)), EPOCH + 1)
    outcome(driver, IsrVerdict.UNANSWERED)
    driver.advance(50)
    assert proposals(driver)[1] == ProposeIsr((IsrChange(T0, X, 0, 0, (ME, 2)),), BrokerEpoch(EPOCH + 1), None)


def test_what_is_given_up_waits_for_the_next_leader_and_isr() -> None:
    driver = proposing()
    outcome(driver, IsrVerdict.GIVEN_UP)
    driver.update(metadata(brokers=live(ME)))
    driver.update(metadata(brokers=live(*ALL)))
    driver.advance(100 * CATCH_UP_MS)
    assert len(proposals(driver)) == 1
    leader(driver, leader_epoch=1)
    driver.advance(CATCH_UP_MS)
    assert len(proposals(driver)) == 2


@pytest.mark.parametrize("verdict", list(IsrVerdict))
def test_an_outcome_that_comes_after_another_word_of_the_controller_is_not_looked_at(verdict: IsrVerdict) -> None:
    driver = proposing()
    leader(driver, (ME, 3), leader_epoch=1)
    outcome(driver, verdict, ALL, 7)
    replica = driver.state.replicas[T0]
    assert (replica.isr, replica.leader_epoch, replica.proposes) == ((ME, 3), 1, True)
    driver.advance(CATCH_UP_MS)
    assert proposals(driver)[1].changes == (IsrChange(T0, X, 1, 0, (ME, 3, 2)),)


@pytest.mark.parametrize("delete", [False, True])
def test_a_stopped_leader_asks_for_nothing_any_more(delete: bool) -> None:
    driver = proposing()
    driver.update(tombstone())
    driver.stop(stop(delete=delete))
    outcome(driver, IsrVerdict.UNANSWERED)
    driver.advance(100 * CATCH_UP_MS)
    assert len(proposals(driver)) == 1


def test_a_queued_topic_without_a_leader_is_left_alone() -> None:
    driver = with_brokers(*ALL)
    leader(driver)
    driver.leader_and_isr(become(leader=-1, isr=(ME,), replicas=ALL, leader_epoch=1))
    driver.advance(100 * CATCH_UP_MS)
    assert proposals(driver) == []


def test_each_proposal_is_recorded_and_an_unanswered_series_once() -> None:
    driver = proposing()
    for wait_ms in (50, 100, 200):
        outcome(driver, IsrVerdict.UNANSWERED)
        driver.advance(wait_ms)
    outcome(driver, IsrVerdict.ACCEPTED, ALL, 1)
    records = [effect.record for effect in driver.effects if isinstance(effect, Record)]
    told = [record for record in records if record.data.get("happened") == "proposed ISR members"]
    assert [record.data["outcomes"] for record in told] == [{"unanswered": 1}, {"accepted": 1}]
    assert [problem for record in told for problem in schema_problems(record)] == []
    assert driver.state.isr_outcomes[IsrVerdict.UNANSWERED] == 3


# --- whom to ask --------------------------------------------------------------------------------------------------


def listed(protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, listener: str = "INTERNAL") -> tuple[Broker, ...]:
    """Brokers and, as one of them, the controller that the driver's requests come from."""
    return (*live(*ALL), Broker(BrokerId(9), BrokerEpoch(-1), (Endpoint(listener, "c", 99, protocol),)))


@pytest.mark.parametrize(
    "ibp,brokers,asked",
    [
        ("2.7-IV2", listed(), True),
        ("3.9", listed(), True),
        ("2.7-IV1", listed(), False),
        ("3.9", live(*ALL), False),
        ("3.9", listed(listener="PLAINTEXT"), False),
        ("3.9", listed(SecurityProtocol.SSL), False),
    ],
)
def test_the_controller_is_asked_where_the_protocol_knows_it_and_the_cache_names_its_endpoint(
    ibp: str, brokers: tuple[Broker, ...], asked: bool
) -> None:
    driver = Driver()
    settings = Settings(ME, DELAY_MS, "s", CATCH_UP_MS, InterBrokerProtocol.parse(ibp), ListenerChoice("INTERNAL"))
    driver.state = AgentState(settings)
    driver.feed(driver.disk.inventory())
    driver.feed(BrokerRegistered(EPOCH))
    driver.update(metadata("other", Y, brokers=brokers))
    leader(driver)
    driver.advance(CATCH_UP_MS)
    (proposal,) = proposals(driver)
    assert proposal.controller == (Endpoint("INTERNAL", "c", 99) if asked else None)
