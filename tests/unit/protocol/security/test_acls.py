from __future__ import annotations

import pytest

from lethe.protocol.security.acls import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    acl_path,
    decode_acls,
    decode_change,
    encode_acls,
    encode_change,
)
from lethe.protocol.security.principals import Principal
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.json_fields import MalformedZnode

ANN = Principal("User", "ann")
READ = AclEntry(ANN, "*", Operation.READ, Permission.ALLOW)
ORDERS = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
PREFIX = ResourcePattern(ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, "ord")


def test_paths_are_those_of_kafka() -> None:
    assert acl_path(ORDERS) == paths.acl_topic("orders") == "/kafka-acl/Topic/orders"
    assert acl_path(PREFIX) == "/kafka-acl-extended/prefixed/TransactionalId/ord"


def test_what_is_written_is_read_again() -> None:
    entries = (READ, AclEntry(ANN, "10.0.0.1", Operation.CLUSTER_ACTION, Permission.DENY))
    assert decode_acls("/x", encode_acls(entries)) == entries
    assert encode_acls(entries[:1]) == (
        b'{"version":1,"acls":[{"principal":"User:ann","permissionType":"Allow","operation":"Read","host":"*"}]}'
    )


def test_an_acl_that_stands_twice_is_one() -> None:
    assert decode_acls("/x", encode_acls((READ, READ))) == (READ,)
    assert decode_acls("/x", None) == decode_acls("/x", b"") == ()


@pytest.mark.parametrize(
    "operation, read",
    [
        ("read", Operation.READ),
        ("DESCRIBECONFIGS", Operation.DESCRIBE_CONFIGS),
        ("DESCRIBE_CONFIGS", Operation.UNKNOWN),
        ("Fly", Operation.UNKNOWN),
    ],
)
def test_operations_are_found_by_their_name_in_any_case(operation: str, read: Operation) -> None:
    data = encode_acls((READ,)).replace(b"Read", operation.encode())
    assert decode_acls("/x", data) == (READ._replace(operation=read),)


@pytest.mark.parametrize("field", ["principal", "permissionType", "operation", "host"])
def test_a_field_that_is_missing_is_named(field: str) -> None:
    data = encode_acls((READ,)).replace(field.encode(), b"other")
    with pytest.raises(MalformedZnode, match=f"znode /x cannot be understood: '{field}' must be a string, found null"):
        decode_acls("/x", data)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"rubbish", "not JSON"),
        (b'{"version":2,"acls":[]}', "'version' must be 1, found 2"),
        (b'{"version":1}', "'acls' must be an array"),
        (b'{"version":1,"acls":[7]}', "an item of 'acls' is not an object"),
        (encode_acls((READ,)).replace(b"User:", b"User"), "'principal' must be a type and a name"),
        (encode_acls((READ,)).replace(b"Read", b"Any"), "cannot be Any"),
    ],
)
def test_what_kafka_would_not_have_written_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedZnode, match=reason):
        decode_acls("/x", data)


@pytest.mark.parametrize("resource", [ORDERS, PREFIX, ORDERS._replace(name="a:b"), ORDERS._replace(name="*")])
def test_notifications_are_read_again(resource: ResourcePattern) -> None:
    parent = paths.EXTENDED_ACL_CHANGES if resource.pattern_type is PatternType.PREFIXED else paths.ACL_CHANGES
    assert decode_change(f"{parent}/acl_changes_0000000001", encode_change(resource)) == resource


def test_notifications_are_those_of_kafka() -> None:
    assert encode_change(ORDERS) == b"TOPIC:orders"
    assert encode_change(PREFIX) == (
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"ord","patternType":"PREFIXED"}'
    )
    assert decode_change(f"{paths.ACL_CHANGES}/acl_changes_1", b"Topic:orders") == ORDERS
    assert decode_change(f"{paths.ACL_CHANGES}/acl_changes_1", b"Robot:r2") is None


@pytest.mark.parametrize("data", [None, b"", b"Topic", b"\xff:x"])
def test_a_notification_that_is_none_is_refused(data: bytes | None) -> None:
    with pytest.raises(MalformedZnode):
        decode_change(f"{paths.ACL_CHANGES}/acl_changes_1", data)


@pytest.mark.parametrize("change", [(b'"version":1', b'"version":2'), (b"PREFIXED", b"MATCH"), (b'"ord"', b"7")])
def test_a_notification_of_a_later_kind_is_refused(change: tuple[bytes, bytes]) -> None:
    with pytest.raises(MalformedZnode):
        decode_change(f"{paths.EXTENDED_ACL_CHANGES}/acl_changes_1", encode_change(PREFIX).replace(*change))
