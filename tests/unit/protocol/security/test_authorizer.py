"""Ten thousand random sets are compared with Kafka's authorizer in tests/authorizer; these are cases to read."""

from __future__ import annotations

import pytest

from lethe.protocol.security.acls import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from lethe.protocol.security.authorizer import (
    NO_ACLS,
    NOT_LOADED,
    UNREADABLE,
    Acls,
    Action,
    Authorizer,
    Client,
    cluster_action,
    host_address,
    refusal,
)
from lethe.protocol.security.principals import EVERYONE, Principal

ANN, BOB, ROOT = (Principal("User", name) for name in ("ann", "bob", "root"))
HERE = "10.0.0.1"
FROM_ANN = Client(ANN, HERE)
READ = Action(Operation.READ, ResourceType.TOPIC, "orders")
DESCRIBE = READ._replace(operation=Operation.DESCRIBE)


def topic(name: str, pattern_type: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, pattern_type, name)


def acl(
    principal: Principal, operation: Operation, permission: Permission = Permission.ALLOW, host: str = "*"
) -> AclEntry:
    return AclEntry(principal, host, operation, permission)


def authorizer(acls: dict[ResourcePattern, tuple[AclEntry, ...]]) -> Authorizer:
    return Authorizer(Acls.of(acls), frozenset({ROOT}))


@pytest.mark.parametrize(
    "resource", [topic("orders"), topic("*"), *(topic(start, PatternType.PREFIXED) for start in ("ord", "orders"))]
)
@pytest.mark.parametrize("principal", [ANN, EVERYONE])
@pytest.mark.parametrize("host", [HERE, "*"])
@pytest.mark.parametrize("operation", [Operation.READ, Operation.ALL])
def test_an_acl_allows_by_resource_principal_host_and_operation(
    resource: ResourcePattern, principal: Principal, host: str, operation: Operation
) -> None:
    entries = (acl(principal, operation, host=host),)
    rights = authorizer({resource: entries})
    assert rights.allows(FROM_ANN, READ)
    assert not rights.allows(FROM_ANN, READ._replace(name="Orders")) or resource.name == "*"
    assert rights.allows(Client(BOB, HERE), READ) == (principal == EVERYONE)
    assert rights.allows(Client(ANN, "10.0.0.2"), READ) == (host == "*")
    assert rights.allows(FROM_ANN, READ._replace(operation=Operation.WRITE)) == (operation is Operation.ALL)
    assert not rights.allows(FROM_ANN, READ._replace(resource_type=ResourceType.GROUP))
    denied = authorizer({resource: entries, topic("orders"): (acl(ANN, Operation.READ, Permission.DENY),)})
    assert not denied.allows(FROM_ANN, READ)


def test_some_operations_allow_describing_and_none_is_denied_with_another() -> None:
    for operation in Operation:
        rights = authorizer({topic("orders"): (acl(ANN, operation),)})
        implies = {
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.ALL,
        }
        assert rights.allows(FROM_ANN, DESCRIBE) == (operation in implies)
        configs = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}
        asked = DESCRIBE._replace(operation=Operation.DESCRIBE_CONFIGS)
        assert rights.allows(FROM_ANN, asked) == (operation in configs)
    denied = (acl(EVERYONE, Operation.ALL), acl(ANN, Operation.READ, Permission.DENY))
    assert authorizer({topic("orders"): denied}).allows(FROM_ANN, DESCRIBE)


def test_without_acls_the_setting_decides_and_one_acl_of_others_ends_that() -> None:
    assert not Authorizer(NO_ACLS).allows(FROM_ANN, READ)
    assert Authorizer(NO_ACLS, allow_everyone_if_no_acl_found=True).allows(FROM_ANN, READ)
    others = Acls.of({topic("o", PatternType.PREFIXED): (acl(BOB, Operation.WRITE),)})
    assert not Authorizer(others, allow_everyone_if_no_acl_found=True).allows(FROM_ANN, READ)


@pytest.mark.parametrize(
    "acls", [NOT_LOADED, Acls.of({topic("orders"): UNREADABLE, topic("*"): (acl(ANN, Operation.ALL),)})]
)
def test_what_could_not_be_read_denies_everyone_but_super_users(acls: Acls) -> None:
    rights = Authorizer(acls, frozenset({ROOT}), allow_everyone_if_no_acl_found=True)
    assert not rights.allows(FROM_ANN, READ)
    assert rights.allows(Client(ROOT, HERE), READ)
    assert not rights.allows(Client(Principal("user", "root"), HERE), READ)


def test_acls_are_replaced_without_changing_those_before() -> None:
    before = Acls.of({topic("a"): UNREADABLE, topic("pre", PatternType.PREFIXED): UNREADABLE})
    after = before.replaced({topic("a"): (), topic("pre", PatternType.PREFIXED): (), topic("b"): UNREADABLE})
    assert (before.pattern_count, before.entry_count) == (2, 2)
    assert dict(after.patterns()) == {topic("b"): UNREADABLE}
    assert before.about(ResourceType.TOPIC, "prefix") == UNREADABLE
    assert after.about(ResourceType.TOPIC, "prefix") == ()


@pytest.mark.parametrize(
    "host, scope_id, text",
    [
        ("127.0.0.1", 0, "127.0.0.1"),
        ("::1", 0, "0:0:0:0:0:0:0:1"),
        ("::ffff:10.1.2.3", 0, "10.1.2.3"),
        ("2001:DB8::ff00:42:8329", 0, "2001:db8:0:0:0:ff00:42:8329"),
        ("fe80::1%eth0", 2, "fe80:0:0:0:0:0:0:1%2"),
    ],
)
def test_addresses_are_written_as_java_writes_them(host: str, scope_id: int, text: str) -> None:
    assert host_address(host, scope_id) == text


def test_a_refusal_names_the_client_the_resource_and_the_command() -> None:
    assert refusal(FROM_ANN, cluster_action(Operation.CLUSTER_ACTION)) == (
        "User:ann from 10.0.0.1 may not ClusterAction Cluster 'kafka-cluster'; to allow it: kafka-acls --add "
        "--allow-principal User:ann --operation ClusterAction --cluster"
    )
    assert refusal(Client(Principal("User", "CN=a b"), HERE), READ).endswith(
        "--allow-principal 'User:CN=a b' --operation Read --topic orders"
    )
