"""Kafka's ACLs, and the znodes that hold them, both ways.

    /kafka-acl/Topic/orders                     ACLs of the topic `orders`; of every topic if the name is `*`
    /kafka-acl-extended/prefixed/Topic/ord      ACLs of every topic whose name begins with `ord`
    /kafka-acl-changes/acl_changes_0000000001   the text `TOPIC:orders`: these ACLs have changed
    /kafka-acl-extended-changes/acl_changes_…   the same for a prefix, as JSON

Like Kafka, the reader of ACLs takes an operation or permission that is not in its table as UNKNOWN: it is from a newer
Kafka, matches no request, and still counts as an ACL of the resource. Everything else that Kafka would not have written
raises MalformedZnode. (Kafka takes a znode that is no JSON for one without ACLs, and does not start on other faults.)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from lethe.protocol.security.principals import Principal, parse_principal
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import Json, array, dump, integer, malformed, parse_object, string

_VERSION: Final = 1
_ANY: Final = "ANY"


class ResourceType(enum.Enum):
    """The value is the name in a path."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"
    DELEGATION_TOKEN = "DelegationToken"
    USER = "User"


class Operation(enum.Enum):
    """The value is the name in a znode."""

    UNKNOWN = "Unknown"
    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    CREATE_TOKENS = "CreateTokens"
    DESCRIBE_TOKENS = "DescribeTokens"


class Permission(enum.Enum):
    """The value is the name in a znode."""

    UNKNOWN = "Unknown"
    ALLOW = "Allow"
    DENY = "Deny"


class PatternType(enum.Enum):
    LITERAL = "literal"
    PREFIXED = "prefixed"


class ResourcePattern(NamedTuple):
    """The resources that ACLs are about."""

    resource_type: ResourceType
    pattern_type: PatternType
    name: str


class AclEntry(NamedTuple):
    """One ACL: the principal may, or may not, do this from this host. `host` is an address, or `*` for all."""

    principal: Principal
    host: str
    operation: Operation
    permission: Permission


CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the one resource of type CLUSTER."""
WILDCARD: Final = "*"
"""Every resource of a type, as a literal name; every host."""

_OPERATIONS: Final = {operation.value.upper(): operation for operation in Operation}
_PERMISSIONS: Final = {permission.value.upper(): permission for permission in Permission}
_TYPES_BY_NAME: Final = {resource_type.name: resource_type for resource_type in ResourceType}
ROOTS: Final[Mapping[PatternType, str]] = MappingProxyType(
    {PatternType.LITERAL: paths.ACLS, PatternType.PREFIXED: paths.PREFIXED_ACLS}
)
CHANGES: Final[Mapping[PatternType, str]] = MappingProxyType(
    {PatternType.LITERAL: paths.ACL_CHANGES, PatternType.PREFIXED: paths.EXTENDED_ACL_CHANGES}
)
"""Parents of the notifications."""


# --- paths --------------------------------------------------------------------------------------------------------


def type_path(resource_type: ResourceType, pattern_type: PatternType) -> str:
    """Return the parent of the ACLs of all patterns of these types."""
    return f"{ROOTS[pattern_type]}/{resource_type.value}"


def acl_path(resource: ResourcePattern) -> str:
    """Return the znode of the resource's ACLs."""
    return f"{type_path(resource.resource_type, resource.pattern_type)}/{resource.name}"


# --- ACLs ---------------------------------------------------------------------------------------------------------


def encode_acls(entries: Iterable[AclEntry]) -> bytes:
    """Return the data of a znode with these ACLs."""
    listed = [
        {
            "principal": str(entry.principal),
            "permissionType": entry.permission.value,
            "operation": entry.operation.value,
            "host": entry.host,
        }
        for entry in entries
    ]
    return dump({"version": _VERSION, "acls": listed})


def decode_acls(path: str, data: bytes | None) -> tuple[AclEntry, ...]:
    """Return the ACLs in a znode, each once; none if it has no data, as in Kafka. Raises MalformedZnode."""
    if not data:
        return ()
    content = parse_object(path, data)
    if (version := integer(path, "'version'", content.get("version"))) != _VERSION:
        malformed(path, f"'version' must be {_VERSION}, found {version}")
    return tuple(dict.fromkeys(_entry(path, item) for item in array(path, "'acls'", content.get("acls"))))


def _entry(path: str, item: Json) -> AclEntry:
    if not isinstance(item, dict):
        malformed(path, "an item of 'acls' is not an object")
    name = string(path, "'principal'", item.get("principal"))
    if ":" not in name:
        malformed(path, f"'principal' must be a type and a name with a colon between them, found {name[:40]!r}")
    principal = parse_principal(name)
    host = string(path, "'host'", item.get("host"))
    operation = string(path, "'operation'", item.get("operation")).upper()
    permission = string(path, "'permissionType'", item.get("permissionType")).upper()
    if _ANY in (operation, permission):
        malformed(path, "'operation' and 'permissionType' cannot be Any, which only queries may use")
    return AclEntry(
        principal, host, _OPERATIONS.get(operation, Operation.UNKNOWN), _PERMISSIONS.get(permission, Permission.UNKNOWN)
    )


# --- notifications ------------------------------------------------------------------------------------------------


def encode_change(resource: ResourcePattern) -> bytes:
    """Return the data of a notification that the resource's ACLs have changed."""
    if resource.pattern_type is PatternType.LITERAL:
        return f"{resource.resource_type.name}:{resource.name}".encode()
    return dump(
        {
            "version": _VERSION,
            "resourceType": resource.resource_type.name,
            "name": resource.name,
            "patternType": resource.pattern_type.name,
        }
    )


def decode_change(path: str, data: bytes | None) -> ResourcePattern | None:
    """Return the resource whose ACLs have changed; None if no request is about a resource of its type.

    Raises MalformedZnode: then any ACL may have changed.
    """
    if path.startswith(f"{paths.EXTENDED_ACL_CHANGES}/"):
        return _extended_change(path, data)
    try:
        kind, colon, name = (data or b"").decode().partition(":")
    except UnicodeDecodeError as error:
        malformed(path, f"it is no text ({error})")
    if not colon:
        malformed(path, "expected a type and a name with a colon between them")
    resource_type = _TYPES_BY_NAME.get(kind.upper())
    return None if resource_type is None else ResourcePattern(resource_type, PatternType.LITERAL, name)


def _extended_change(path: str, data: bytes | None) -> ResourcePattern | None:
    content = parse_object(path, data)
    integer(path, "'version'", content.get("version"), maximum=_VERSION)
    kind = string(path, "'resourceType'", content.get("resourceType"))
    pattern = string(path, "'patternType'", content.get("patternType")).lower()
    name = string(path, "'name'", content.get("name"))
    if pattern not in {known.value for known in PatternType}:
        malformed(path, f"'patternType' must be LITERAL or PREFIXED, found {pattern[:40]!r}")
    resource_type = _TYPES_BY_NAME.get(kind.upper())
    return None if resource_type is None else ResourcePattern(resource_type, PatternType(pattern), name)
