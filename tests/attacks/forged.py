"""Clients that pretend to be the controller, or that were it: forged principals, ids and epochs."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.protocol.kafka.control import ControlRequest
from lethe.protocol.kafka.queries import Request
from lethe.protocol.kafka.to_controller import AllocateProducerIdsRequest, ControlledShutdownRequest
from lethe.protocol.vocabulary import NO_EPOCH, BrokerEpoch, BrokerId, TopicId
from tests.attacks.attack import Attack, Attempt, Control, Seen, has_error, told
from tests.attacks.setting import BROKERS, CLEAR, GUEST, INTERNAL, LETHE, MTLS, SHA_512
from tests.attacks.world import LEDGER_EPOCH, World, until
from tests.unit.broker.core import driver

FORGED: Final = "forged controller"
STALE: Final = "stale epochs"
MOST: Final = 2_147_483_647
FOREIGN_ID: Final = 666


def deletes(listener: str = INTERNAL, user: str = LETHE) -> Control:
    """Return a control: StopReplica of this user, with the controller's id and epochs, deletes a replica."""

    async def control(world: World) -> str:
        topic = await world.sacrifice()
        asking = world.ask(await world.addressed(driver.stop(topic)), listener, user)
        what, answer = await told(asking)
        assert not has_error(answer), what
        assert not world.directory(topic), f"{topic} still has its directory"
        assert not world.kept(topic), f"the directory of {topic} is quarantined"
        return f"User:{'CN=' if listener == MTLS else ''}{user} deletes a replica"

    return control


def forged(request: ControlRequest, listener: str = INTERNAL, user: str = LETHE, **wrong: int) -> Attempt:
    """Return an attempt: the request of a controller, with what is wrong."""

    async def attempt(world: World) -> Seen:
        given = dict(wrong)
        if "behind" in given:
            given["epoch"] = await world.controller_epoch() - given.pop("behind")
        addressed = await world.addressed(request, **given)
        what, answer = await told(world.ask(addressed, listener, user))
        return Seen(what, not has_error(answer))

    return attempt


def to_a_new_run(request: ControlRequest, *, behind: int) -> Attempt:
    """Return an attempt: the request of another controller and for any broker epoch, at an agent that has just started
    and has heard nothing from its controller yet."""

    async def attempt(world: World) -> Seen:
        before, epoch = await world.broker_epoch(), await world.controller_epoch()
        world.controller.pause()
        try:
            await world.agent.kill()
            await world.agent.start()

            async def is_registered_again() -> bool:
                return await world.broker_epoch() != before

            await until(is_registered_again, "the agent is registered again")
            addressed = await world.addressed(request, epoch=epoch - behind, controller=FOREIGN_ID)
            what, answer = await told(world.ask(addressed._replace(broker_epoch=NO_EPOCH)))
        finally:
            world.controller.resume()
        return Seen(what, not has_error(answer))

    return attempt


def _made_up() -> ControlRequest:
    return driver.become("made-up", TopicId(uuid.UUID(int=0xBAD)), is_new=True)


def controllers(request: Callable[[World], Awaitable[Request]], user: str) -> Attempt:
    """Return an attempt: a request to the controller, as this user."""

    async def attempt(world: World) -> Seen:
        what, answer = await told(world.ask(await request(world), user=user, daemon=world.controller))
        return Seen(what, not has_error(answer))

    return attempt


def answered(request: Callable[[World], Awaitable[Request]]) -> Control:
    """Return a control: the controller answers the same request of a broker."""

    async def control(world: World) -> str:
        what, answer = await told(world.ask(await request(world), user=BROKERS, daemon=world.controller))
        assert not has_error(answer), what
        return f"User:{BROKERS} is answered"

    return control


async def _producer_ids(world: World) -> Request:
    return AllocateProducerIdsRequest(BrokerId(world.agent.id), BrokerEpoch(await world.broker_epoch()))


async def _shutdown(world: World) -> Request:
    return ControlledShutdownRequest(BrokerId(world.agent.id), BrokerEpoch(await world.broker_epoch()))


STOP_ORDERS: Final = driver.stop("orders")


def without_rights(security: Callable[[World], ChannelSecurity]) -> Attempt:
    """Return an attempt: StopReplica at CLEAR, by a client that connects in this way."""

    async def attempt(world: World) -> Seen:
        addressed = await world.addressed(STOP_ORDERS)
        what, answer = await told(world.ask_with(security(world), addressed, CLEAR))
        return Seen(what, not has_error(answer))

    return attempt


def _guessed(_: World) -> ChannelSecurity:
    return ChannelSecurity(login=SaslLogin.scram(SHA_512, LETHE, lambda: "guessed"))


ATTACKS: Final = (
    Attack(
        FORGED,
        "StopReplica with the true id and epochs, by a user without ClusterAction (SASL_SSL)",
        deletes(),
        forged(STOP_ORDERS, user=GUEST),
        "no authorizer",
    ),
    Attack(
        FORGED,
        "the same by a certificate without ClusterAction (SSL)",
        deletes(MTLS),
        forged(STOP_ORDERS, MTLS, GUEST),
        "no authorizer",
    ),
    Attack(
        FORGED,
        "StopReplica with the true id and epochs, without a login (SASL_PLAINTEXT)",
        deletes(CLEAR),
        without_rights(lambda _: ChannelSecurity()),
        "no TLS and no login",
    ),
    Attack(FORGED, "the same with a wrong password of the right user", deletes(CLEAR), without_rights(_guessed)),
    Attack(
        FORGED,
        "LeaderAndIsr of a new topic by a user without ClusterAction",
        deletes(),
        forged(_made_up(), user=GUEST),
        "no authorizer",
    ),
    Attack(
        FORGED,
        "UpdateMetadata, a tombstone of a topic, by a user without ClusterAction",
        deletes(),
        forged(driver.tombstone("orders", None), user=GUEST),
    ),
    Attack(
        FORGED,
        "StopReplica by a user with ClusterAction, and a controller epoch of 2,147,483,647",
        deletes(),
        forged(STOP_ORDERS, epoch=MOST),
    ),
    Attack(
        FORGED,
        "the same with the next epoch, which nobody was elected under",
        deletes(),
        forged(STOP_ORDERS, behind=-1),
    ),
    Attack(
        FORGED,
        "StopReplica by a user with ClusterAction, with the true epoch and another controller's id",
        deletes(),
        forged(STOP_ORDERS, controller=1002),
    ),
    Attack(
        FORGED,
        "AllocateProducerIds to the controller, by a user without ClusterAction",
        answered(_producer_ids),
        controllers(_producer_ids, GUEST),
        "no authorizer",
    ),
    Attack(
        FORGED,
        "ControlledShutdown to the controller, by a user without ClusterAction",
        answered(_producer_ids),
        controllers(_shutdown, GUEST),
    ),
    Attack(
        STALE,
        "StopReplica with the controller epoch before the present one",
        deletes(),
        forged(STOP_ORDERS, behind=1),
    ),
    Attack(
        STALE,
        "StopReplica with an earlier broker epoch",
        deletes(),
        forged(STOP_ORDERS, older=1),
    ),
    Attack(
        STALE,
        "StopReplica with an earlier leader epoch of the partition",
        deletes(),
        forged(driver.stop("ledger", leader_epoch=LEDGER_EPOCH - 1)),
    ),
    Attack(
        STALE,
        "LeaderAndIsr with an earlier leader epoch of the partition",
        deletes(),
        forged(driver.become("ledger", None, leader_epoch=LEDGER_EPOCH - 1)),
    ),
    Attack(
        STALE,
        "StopReplica of another controller, with the epoch before the present one, to an agent that has just started",
        deletes(),
        to_a_new_run(STOP_ORDERS, behind=1),
        restarts=True,
    ),
    Attack(
        STALE,
        "StopReplica of another controller, with the present epoch, to an agent that has just started",
        deletes(),
        to_a_new_run(STOP_ORDERS, behind=0),
        restarts=True,
    ),
)
