"""Settings of topics: who has written what, which requests explain it, and what a topic is to have after the trash.

    the write of a controller                 is explained by
    ----------------------------------------  --------------------------------------------------------------------
    goes with a topic's znode                 the creation of the topic: `client_book`
    goes with an entry of the trash           the trash. Of a topic in service it changes only what it freezes
    any other                                 an alteration that a client has asked for while this topic lived: what
                                              is written is what becomes of the settings that were there just before

So a controller that writes over settings which it has not read is found, and so is one that gives a topic what was
asked for an earlier one of its name, if that request had ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lethe.protocol.kafka.admin_configs import (
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterOperation,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.to_controller import AdminRequest
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.ensemble import Writer
    from tests.simulation.ledger import Incarnation

FROZEN: Final = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""Settings of a topic on its way into the trash, and there."""
LISTS: Final = {"cleanup.policy": ("delete",), "leader.replication.throttled.replicas": ()}
"""Settings that are lists, with Kafka's defaults."""
Settings = Mapping[str, str]
Alteration = AlterConfigsRequest | IncrementalAlterConfigsRequest


class Written(NamedTuple):
    """One write of a topic's settings; None: there are none, or nobody can understand them."""

    by: str
    name: str
    before: Settings | None
    after: Settings | None


@dataclass(frozen=True, slots=True)
class _Unclear:
    """A client has set just what the trash sets: nobody can tell the two apart."""


UNCLEAR: Final = _Unclear()


class ConfigBook:
    """Kept by looking at each write that took effect."""

    def __init__(self) -> None:
        self.writes: list[Written] = []
        self.now: dict[str, Settings | None] = {}
        self._own: dict[str, dict[str, str | _Unclear]] = {}
        """Of topics with an entry in the trash: what they had before that, and what clients have altered since."""

    def book(self, writer: str, operations: Sequence[Operation], *, by_controller: bool) -> None:
        """Take note of one write."""
        for operation in operations:
            if (name := paths.child_of(paths.config_topics(), operation.path)) is not None:
                self._settings(writer, operation, name, is_altered=by_controller and not _is_of_trash(operations, name))
        for operation in operations:
            if (name := paths.child_of(paths.trash(), operation.path)) is None:
                continue
            if isinstance(operation, Create):
                self._own[name] = dict(self._before(operations, name) or {})
            elif isinstance(operation, Delete):
                self._own.pop(name, None)

    def _settings(self, writer: str, operation: Operation, name: str, *, is_altered: bool) -> None:
        if isinstance(operation, Delete):
            self.now.pop(name, None)
        elif isinstance(operation, Create | SetData):
            before, after = self.now.get(name), decoded(operation.path, operation.data)
            self.writes.append(Written(writer, name, before, after))
            self.now[name] = after
            if is_altered and name in self._own:
                self._altered(self._own[name], before or {}, after or {})

    def _before(self, operations: Sequence[Operation], name: str) -> Settings | None:
        """The topic's settings before this write, which is booked."""
        if not any(each.path == paths.config_topic(name) for each in operations):
            return self.now.get(name)
        return next(each.before for each in reversed(self.writes) if each.name == name)

    def _altered(self, own: dict[str, str | _Unclear], before: Settings, after: Settings) -> None:
        for key in [key for key in FROZEN if before.get(key) != after.get(key)]:
            if key not in after:
                own.pop(key, None)
            else:
                own[key] = UNCLEAR if after[key] == FROZEN[key] else after[key]

    def has_its_own(self, name: str, settings: Settings) -> bool:
        """What the trash has frozen is as it was, or as clients have altered it since."""
        own = self._own.get(name, {})
        return all(own.get(key) in (UNCLEAR, settings.get(key)) for key in FROZEN)

    def own(self, name: str) -> str:
        """What it is to have, in words."""
        return str({key: value for key, value in self._own.get(name, {}).items() if key in FROZEN})


def decoded(path: str, data: bytes | None) -> Settings | None:
    """The settings in this data; None where nobody can understand it."""
    try:
        return znodes.decode_config(path, data)
    except znodes.MalformedZnode:
        return None


def settings_written(operations: Sequence[Operation], name: str) -> Settings | None:
    """The topic's settings that these operations write; None where they write none that somebody can understand."""
    path = paths.config_topic(name)
    found = [each for each in operations if isinstance(each, Create | SetData) and each.path == path]
    return decoded(path, found[0].data) if found else None


def _is_of_trash(operations: Sequence[Operation], name: str) -> bool:
    return any(each.path == paths.trashed(name) for each in operations)


# --- what a request makes of settings -----------------------------------------------------------------------------


def names_settings(request: AdminRequest, name: str) -> bool:
    """The request is to alter the settings of this topic."""
    return isinstance(request, Alteration) and _resource(request, name) is not None


def _resource(request: Alteration, name: str) -> tuple[AlterableConfig, ...] | None:
    found = [each.configs for each in request.resources if each.type == TOPIC_RESOURCE and each.name == name]
    return found[0] if found else None


def altered(request: Alteration, name: str, before: Settings | None) -> Settings | None:
    """What becomes of these settings of the topic; None where the request is not about it."""
    changes = _resource(request, name)
    if changes is None:
        return None
    settings = {} if isinstance(request, AlterConfigsRequest) else dict(before or {})
    for key, value, operation in changes:
        if operation == AlterOperation.DELETE:
            settings.pop(key, None)
        elif operation == AlterOperation.SET:
            settings[key] = value or ""
        else:
            text = settings.get(key)
            elements = LISTS[key] if text is None else tuple(filter(None, text.split(",")))
            kept = [each for each in elements if operation == AlterOperation.APPEND or each != value]
            added = [value] if operation == AlterOperation.APPEND and value is not None and value not in kept else []
            settings[key] = ",".join([*kept, *added])
    return settings


def is_done(cluster: Cluster, by: str, request: Alteration, name: str, since: int) -> bool:
    """This controller has written what the request makes of the topic's settings; `since`: after so many writes."""
    return any(
        each.by == by and each.name == name and each.after == altered(request, name, each.before)
        for each in cluster.ledger.configs.writes[since:]
    )


# --- what a controller may write ----------------------------------------------------------------------------------


def writes_are_explained(cluster: Cluster, writer: Writer, operations: Sequence[Operation]) -> None:
    """Settings that a controller writes are those that clients have asked for. Before booking."""
    created = [paths.topic_of(each.path) for each in operations if isinstance(each, Create)]
    for operation in operations:
        name = paths.child_of(paths.config_topics(), operation.path)
        if name is None or name in created or not isinstance(operation, Create | SetData):
            continue
        living, before = cluster.ledger.living.get(name), cluster.ledger.configs.now.get(name)
        after = decoded(operation.path, operation.data)
        problem = (
            _problem_of_trash(living, before, after)
            if _is_of_trash(operations, name)
            else _problem_of_alteration(living, name, before, after)
        )
        if problem is not None:
            where = f"{writer.name} makes {after} of the settings {before} of {living or name}"
            raise Violation("settings", f"{where}: {problem}")


def _problem_of_trash(living: Incarnation | None, before: Settings | None, after: Settings | None) -> str | None:
    """Settings of a topic in the trash may be those of another topic of the name."""
    if living is None or before is None:
        return None
    kept, left = ({k: v for k, v in (each or {}).items() if k not in FROZEN} for each in (before, after))
    return None if kept == left else "the trash is to leave the others"


def _problem_of_alteration(
    living: Incarnation | None, name: str, before: Settings | None, after: Settings | None
) -> str | None:
    if living is None:
        return "there is no such topic"
    asked = [each for each in living.requests if isinstance(each, Alteration) and not each.validate_only]
    if any(altered(each, name, before) == after for each in asked if names_settings(each, name)):
        return None
    return "no client asked for that"
