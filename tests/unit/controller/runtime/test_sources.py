"""A scrape in the middle of a long step: it does not wait, and does not read what is being changed."""

from __future__ import annotations

import asyncio
import threading

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.scrape import NoChannels, ignore, open_nothing, prepare_nothing
from lethe.adapters.clock import SystemClock
from lethe.controller.core import controller, mutation
from lethe.controller.core.answers import UNPROVEN
from lethe.controller.core.context import Context
from lethe.controller.core.deletion_memory import RetriedAction
from lethe.controller.core.effects import Effect
from lethe.controller.core.events import Event, TopicsChanged
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ControllerMetrics, Sources
from lethe.controller.runtime.perform import Performer
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.controller.runtime.sources import oldest_view, retries_by_name, sources
from lethe.controller.runtime.steps import MANY_PARTITIONS, Step
from lethe.controller.runtime.timers import Timers
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.one_controller import OneController
from tests.unit.controller.core.stage import add_topic, leading


def over(context: Context, step: Step) -> tuple[ControllerLoop, Sources]:
    """A loop that is not running, and the sources over it."""
    metrics, clock = ControllerMetrics(), SystemClock()
    sessions = SessionKeeper(open_nothing, post=ignore, overtake=ignore, prepare=prepare_nothing)
    performer = Performer(sessions, NoChannels(), Timers(clock, ignore), ignore, metrics.note_zookeeper, "controller/1")
    loop = ControllerLoop(context, step, controller.after_fault, performer, clock, metrics, ignore)
    return loop, sources(loop, sessions, list, clock, None, None)


async def test_what_was_read_before_a_long_step_is_shown_while_it_runs() -> None:
    context = leading(1, 2)
    add_topic(context, "before", [(1,)], led=True)
    context.cluster.partitions_with_leader_and_isr = MANY_PARTITIONS
    begun, may_end = threading.Event(), threading.Event()

    def long_step(changing: Context, _event: Event, now_ms: int) -> list[Effect]:
        mutation.queue_deletion(changing.cluster, "before", now_ms)
        begun.set()
        assert may_end.wait(30)
        return []

    loop, found = over(context, long_step)
    assert found.gauges is not None
    assert found.oldest is not None
    assert (found.gauges().topics_to_delete_count, found.oldest()) == (0, None)
    stepping = asyncio.ensure_future(loop.steps.step(context, TopicsChanged(), 0))
    try:
        await asyncio.to_thread(begun.wait, 30)
        assert (found.gauges().topics_to_delete_count, found.oldest()) == (0, None)
    finally:
        may_end.set()
        await stepping
        loop.steps.close()
    oldest = found.oldest()
    assert found.gauges().topics_to_delete_count == 1
    assert oldest is not None
    assert oldest.topic == "before"


def test_nothing_is_the_oldest_where_somebody_else_leads() -> None:
    assert oldest_view(Context(leading(1).config), 0) is None


def test_the_age_of_the_oldest_counts_from_its_mark() -> None:
    context = leading(1)
    add_topic(context, "t", [(2,)])
    mutation.queue_deletion(context.cluster, "t", 1_000)
    found = oldest_view(context, 61_500)
    assert found is not None
    assert (found.age_s, found.reason, found.broker) == (60.5, "BROKER_TO_RETURN", 2)


def test_sentences_become_names() -> None:
    context = leading(1)
    mutation.count_retry(context, RetriedAction.REPLICA, UNPROVEN)
    mutation.count_retry(context, RetriedAction.TOMBSTONE, "STALE_BROKER_EPOCH")
    assert retries_by_name(context) == {
        (RetriedAction.REPLICA, "UNPROVEN"): 1,
        (RetriedAction.TOMBSTONE, "STALE_BROKER_EPOCH"): 1,
    }


def test_who_stands_by_shows_who_leads_whoever_that_is_and_that_nobody_does() -> None:
    """What keeps the alert LetheNoActiveController silent while one of Kafka's controllers leads."""
    world = OneController()
    rival = world.zookeeper.open_session()
    kafka = znodes.encode_controller(znodes.ControllerZnode(BrokerId(3), 0))
    world.zookeeper.multi(rival, [Create(paths.controller(), kafka, ephemeral=True)])
    assert shown(world) == ("no session", -1, 0)
    world.open_session()
    world.run()
    assert shown(world) == ("standing by", 3, 0)
    world.zookeeper.close_session(rival)
    world.run()
    assert shown(world) == ("active", world.context.config.controller_id, 1)


def shown(world: OneController) -> tuple[str, float, float]:
    """The role, who leads, and whether this one does, as a scrape has it."""
    loop, found = over(world.context, controller.step)
    metrics = ControllerMetrics()
    metrics.sources = found
    samples = [s for family in text_string_to_metric_families(metrics.text().decode()) for s in family.samples]
    loop.steps.close()
    (role,) = [s.labels["role"] for s in samples if s.name == "lethe_controller_role" and s.value == 1]
    values = {s.name: s.value for s in samples if not s.labels}
    leads = values["kafka_controller_kafkacontroller_activecontrollercount"]
    return role, values["kafka_server_metadataloader_currentcontrollerid"], leads
