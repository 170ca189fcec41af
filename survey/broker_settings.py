"""Reads a broker's configuration from the broker itself, as far as it concerns its control and deletions.

Brokers return their configuration to clients that may describe them, and the versions of a controller's requests that
they support to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.adapters.kafka.client import AccessFailed, ClientError, KafkaConnection
from lethe.adapters.kafka.missing_rights import GRANT_COMMANDS, GRANT_DESCRIBE_CONFIGS, answer_words
from lethe.adapters.kafka.reach import BrokerReach
from lethe.protocol.kafka.admin_configs import (
    BROKER_RESOURCE,
    DescribableConfigs,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from lethe.protocol.kafka.config_values import parse_boolean
from lethe.protocol.kafka.control import (
    NO_CONTROLLER_EPOCH,
    Addressed,
    ApiKey,
    StopReplicaResponse,
    probe_request,
)
from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.kafka.framing import ProtocolError
from lethe.protocol.kafka.versions import IBP_VERSIONS, OLDEST, InterBrokerProtocol, VersionRange, control_versions
from lethe.protocol.vocabulary import NO_EPOCH, Broker, BrokerId, ControllerEpoch
from lethe.survey.brokers import open_connection

CLIENT_ID: Final = "lethe-settings"
DELETE_TOPIC_ENABLE: Final = "delete.topic.enable"
DELETE_DELAY: Final = "log.segment.delete.delay.ms"
_IBP: Final = "inter.broker.protocol.version"
_LISTENER: Final = "inter.broker.listener.name"
_CONTROL_LISTENER: Final = "control.plane.listener.name"
_PROTOCOL: Final = "security.inter.broker.protocol"
AUTHORIZER: Final = "authorizer.class.name"
_ASKED: Final = (DELETE_TOPIC_ENABLE, DELETE_DELAY, _IBP, _LISTENER, _CONTROL_LISTENER, _PROTOCOL, AUTHORIZER)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of one broker; None where it did not return them. `problem` says why nothing is known."""

    broker: BrokerId
    deletes_topics: bool | None = None
    inter_broker_protocol: InterBrokerProtocol | None = None
    listener: str | None = None
    """The listener through which a controller reaches it."""
    problem: str | None = None
    delete_delay_ms: int | None = None
    """How long it keeps the renamed directory of a deleted replica."""
    authorizer: str | None = None
    """Class of its authorizer; None: it has none, or did not say."""
    command_error: int | None = None
    """Its answer to a controller's request that changes nothing; None: no answer, or not asked."""
    principal: str = ""
    """Who has asked it, as its authorizer sees it; empty where no connection was had."""
    unseen: str | None = None
    """Why it did not return its settings to this principal, with the right to grant if that is missing."""
    refusal: str | None = None
    """Why none of its listeners takes this client. Asking again is useless: the configuration has to change."""


async def read_settings(
    broker: Broker, reach: BrokerReach, timeout_ms: int, as_controller: BrokerId | None = None
) -> BrokerSettings:
    """Return the broker's settings; its failures never raise. `as_controller` also tests whether it obeys a controller
    with this id."""
    try:
        async with await open_connection(
            broker, reach, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms, client_id=CLIENT_ID
        ) as connection:
            offered = await connection.offered_versions()
            settings, unseen = dict[str, str](), None
            if ApiKey.DESCRIBE_CONFIGS in offered:
                settings, unseen = await _settings(connection, broker.id)
            refused = None if as_controller is None else await _command_error(connection, as_controller)
            principal = connection.principal
    except AccessFailed as error:
        return BrokerSettings(broker.id, problem=str(error), refusal=str(error))
    except (ClientError, ProtocolError) as error:
        return BrokerSettings(broker.id, problem=str(error))
    return BrokerSettings(
        broker.id,
        parse_boolean(settings.get(DELETE_TOPIC_ENABLE, "")),
        _parsed(settings.get(_IBP)) or newest_understood(offered),
        settings.get(_CONTROL_LISTENER) or settings.get(_LISTENER) or settings.get(_PROTOCOL),
        delete_delay_ms=_number(settings.get(DELETE_DELAY)),
        authorizer=settings.get(AUTHORIZER),
        command_error=refused,
        principal=principal,
        unseen=unseen,
    )


class EpochAnswer(NamedTuple):
    """A broker's answer to a request with a controller epoch. `error` is None where it did not answer. `problem` says
    why, and what a refused client lacks."""

    broker: BrokerId
    error: int | None
    problem: str = ""

    @property
    def refuses(self) -> bool:
        """True if the broker has seen a higher epoch."""
        return self.error == ErrorCode.STALE_CONTROLLER_EPOCH

    @property
    def is_known(self) -> bool:
        """True if the broker has looked at the epoch. It first looks at the sender's permission."""
        return self.refuses or self.error == ErrorCode.NONE

    @property
    def why(self) -> str:
        """Why it is not known whether it accepts the epoch."""
        return self.problem if self.problem or self.error is None else error_name(self.error)


async def ask_about_epoch(
    broker: Broker, reach: BrokerReach, timeout_ms: int, as_controller: BrokerId, epoch: ControllerEpoch
) -> EpochAnswer:
    """Return whether the broker accepts this epoch, which has to be the one of `/controller_epoch`: the broker has seen
    it from the present controller, or sees it now. Its failures never raise."""
    try:
        async with await open_connection(
            broker, reach, connect_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms, client_id=CLIENT_ID
        ) as connection:
            await connection.offered_versions()
            error = await _command_error(connection, as_controller, epoch)
            principal = connection.principal
    except (ClientError, ProtocolError) as failure:
        return EpochAnswer(broker.id, None, str(failure))
    problem = ""
    if error is None:
        problem = "it answered something else than was asked"
    elif error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        problem = answer_words(error, principal, GRANT_COMMANDS)
    return EpochAnswer(broker.id, error, problem)


async def _command_error(
    connection: KafkaConnection, controller: BrokerId, epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
) -> int | None:
    answer = await connection.ask(Addressed(probe_request(controller, epoch), NO_EPOCH))
    return answer.error if isinstance(answer, StopReplicaResponse) else None


async def _settings(connection: KafkaConnection, broker: BrokerId) -> tuple[dict[str, str], str | None]:
    """Return the settings, and why the broker did not return them."""
    asked = DescribeConfigsRequest((DescribableConfigs(BROKER_RESOURCE, str(broker), _ASKED),))
    answer = await connection.ask(asked)
    if not isinstance(answer, DescribeConfigsResponse):
        return {}, None
    unseen = None
    if not answer.results:
        unseen = "DescribeConfigs: the answer does not name the broker"
    elif (error := next((row.error for row in answer.results if row.error != ErrorCode.NONE), None)) is not None:
        unseen = f"DescribeConfigs: {answer_words(error, connection.principal, GRANT_DESCRIBE_CONFIGS)}"
    found = {
        entry.name: entry.value
        for result in answer.results
        if result.error == ErrorCode.NONE
        for entry in result.entries
        if entry.value
    }
    return found, unseen


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _parsed(text: str | None) -> InterBrokerProtocol | None:
    try:
        return None if text is None else InterBrokerProtocol.parse(text)
    except ValueError:
        return None


def newest_understood(offered: Mapping[int, VersionRange]) -> InterBrokerProtocol | None:
    """Return the newest inter-broker protocol whose control requests the broker supports; None where there is none."""
    for text in reversed(IBP_VERSIONS):
        ibp = InterBrokerProtocol.parse(text)
        if ibp < OLDEST:
            return None
        versions = control_versions(ibp)
        apis = (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA)
        if all(versions.of(api) in offered.get(api, ()) for api in apis):
            return ibp
    return None


def common_protocol(settings: Iterable[BrokerSettings]) -> InterBrokerProtocol | None:
    """Return the oldest protocol that brokers named, which all of them support; None where no broker named one."""
    return min(
        (each.inter_broker_protocol for each in settings if each.inter_broker_protocol is not None), default=None
    )
