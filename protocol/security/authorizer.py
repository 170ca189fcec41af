"""Verdicts on requests: those of Kafka's AclAuthorizer (2.5 to 3.9), from the same ACLs and settings.

An action is allowed by the first of these that applies, else denied:

    the principal is one of `super.users`                                            allowed
    no ACL is about the resource (by name, by `*`, by a prefix)                      `allow.everyone.if.no.acl.found`
    an ACL about it denies the operation, or All, to the principal from this host    denied
    an ACL about it allows that                                                      allowed

Principal `User:*` and host `*` match all. Read, Write, Delete and Alter allow Describe as well, AlterConfigs allows
DescribeConfigs; a denial implies nothing.

    ACLs                                               ann reads orders    ann describes orders
    Topic *: Allow User:ann Read                       allowed             allowed
    Topic *: Allow User:* All; ord*: Deny User:ann Read    denied              allowed

ACLs that could not be read are `UNREADABLE`: they deny everything to everyone but super users, because a denial may be
among them.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from lethe.protocol.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from lethe.protocol.security.principals import EVERYONE, Principal

UNREADABLE: Final = (AclEntry(EVERYONE, WILDCARD, Operation.ALL, Permission.DENY),)
"""ACLs of a resource whose znode could not be read or understood."""

_IMPLIED_BY: Final[Mapping[Operation, tuple[Operation, ...]]] = MappingProxyType(
    {
        Operation.DESCRIBE: (
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
        ),
        Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    }
)
_RESOURCE_OPTIONS: Final = MappingProxyType(
    {
        ResourceType.TOPIC: "--topic",
        ResourceType.GROUP: "--group",
        ResourceType.TRANSACTIONAL_ID: "--transactional-id",
        ResourceType.DELEGATION_TOKEN: "--delegation-token",
        ResourceType.USER: "--user-principal",
    }
)


class Client(NamedTuple):
    """Who sends a request. `host` is an address as `host_address` writes it."""

    principal: Principal
    host: str


class Action(NamedTuple):
    """What a request does to one resource."""

    operation: Operation
    resource_type: ResourceType
    name: str


def cluster_action(operation: Operation) -> Action:
    """Return the action on the cluster."""
    return Action(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def host_address(host: str, scope_id: int = 0) -> str:
    """Return a peer's address as Java writes it, which is how ACLs name hosts: `0:0:0:0:0:0:0:1` for `::1`.

    Raises ValueError if `host` is no address.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if (mapped := address.ipv4_mapped) is not None:
        return str(mapped)
    text = ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
    return f"{text}%{scope_id}" if scope_id else text


_ByName = Mapping[str, tuple[AclEntry, ...]]
_Kind = tuple[ResourceType, PatternType]


@dataclass(frozen=True, slots=True)
class Acls:
    """The ACLs of a cluster at one time. Build it with `of` and `replaced`."""

    _names: Mapping[_Kind, _ByName]
    _lengths: Mapping[ResourceType, tuple[int, ...]] = field(default_factory=dict)
    """Lengths of the prefixes that have ACLs, ascending."""

    @classmethod
    def of(cls, acls: Mapping[ResourcePattern, tuple[AclEntry, ...]]) -> Self:
        """Return these ACLs."""
        return cls({}).replaced(acls)

    def replaced(self, acls: Mapping[ResourcePattern, tuple[AclEntry, ...]]) -> Self:
        """Return a copy in which these patterns have these ACLs; with an empty tuple a pattern has none."""
        names = dict(self._names)
        changed: dict[_Kind, dict[str, tuple[AclEntry, ...]]] = {}
        for resource, entries in acls.items():
            kind = (resource.resource_type, resource.pattern_type)
            if kind not in changed:
                names[kind] = changed[kind] = dict(names.get(kind, {}))
            if entries:
                changed[kind][resource.name] = entries
            else:
                changed[kind].pop(resource.name, None)
        lengths = dict(self._lengths)
        for (resource_type, pattern_type), by_name in changed.items():
            if pattern_type is PatternType.PREFIXED:
                lengths[resource_type] = tuple(sorted({len(name) for name in by_name}))
        return type(self)(names, lengths)

    def about(self, resource_type: ResourceType, name: str) -> tuple[AclEntry, ...]:
        """Return all ACLs about the resource: by its name, by `*`, and by prefixes of its name."""
        literal = self._names.get((resource_type, PatternType.LITERAL), {})
        found = list(literal.get(WILDCARD, ()))
        if name != WILDCARD:
            found += literal.get(name, ())
        prefixed = self._names.get((resource_type, PatternType.PREFIXED), {})
        for length in self._lengths.get(resource_type, ()):
            if length > len(name):
                break
            found += prefixed.get(name[:length], ())
        return tuple(found)

    @property
    def pattern_count(self) -> int:
        """Number of patterns that have ACLs."""
        return sum(map(len, self._names.values()))

    @property
    def entry_count(self) -> int:
        """Number of ACLs."""
        return sum(len(entries) for by_name in self._names.values() for entries in by_name.values())

    def patterns(self) -> Iterator[tuple[ResourcePattern, tuple[AclEntry, ...]]]:
        """Iterate over all patterns that have ACLs."""
        for (resource_type, pattern_type), by_name in self._names.items():
            for name, entries in by_name.items():
                yield ResourcePattern(resource_type, pattern_type, name), entries


NO_ACLS: Final = Acls.of({})
NOT_LOADED: Final = Acls.of({ResourcePattern(kind, PatternType.LITERAL, WILDCARD): UNREADABLE for kind in ResourceType})
"""Before the ACLs have been read."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The settings and the ACLs of a cluster. All verdicts are of one moment."""

    acls: Acls
    super_users: frozenset[Principal] = frozenset()
    allow_everyone_if_no_acl_found: bool = False

    def allows(self, client: Client, action: Action) -> bool:
        """Return whether the client may do this."""
        if client.principal in self.super_users:
            return True
        entries = self.acls.about(action.resource_type, action.name)
        if not entries:
            return self.allow_everyone_if_no_acl_found
        if _matches(entries, client, (action.operation,), Permission.DENY):
            return False
        return _matches(entries, client, _IMPLIED_BY.get(action.operation, (action.operation,)), Permission.ALLOW)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a request, and what it may do, by the ACLs of that moment."""

    client: Client
    authorizer: Authorizer | None = None
    """None: the process has no authorizer, and everything is allowed."""

    def allows(self, action: Action) -> bool:
        """Return whether the sender may do this."""
        return self.authorizer is None or self.authorizer.allows(self.client, action)


def _matches(
    entries: tuple[AclEntry, ...], client: Client, operations: tuple[Operation, ...], permission: Permission
) -> bool:
    return any(
        entry.permission is permission
        and (entry.principal == client.principal or entry.principal == EVERYONE)
        and (entry.operation in operations or entry.operation is Operation.ALL)
        and entry.host in (client.host, WILDCARD)
        for entry in entries
    )


def refusal(client: Client, action: Action) -> str:
    """Return the sentence about a denied action, with the command that allows it."""
    option = _RESOURCE_OPTIONS.get(action.resource_type)
    resource = "--cluster" if option is None else f"{option} {shlex.quote(action.name)}"
    return (
        f"{client.principal} from {client.host} may not {action.operation.value} {action.resource_type.value} "
        f"{action.name!r}; to allow it: kafka-acls --add --allow-principal {shlex.quote(str(client.principal))} "
        f"--operation {action.operation.value} {resource}"
    )
