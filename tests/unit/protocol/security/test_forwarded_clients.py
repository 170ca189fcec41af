"""Only ACLs with a host, about anonymous clients or everyone, tell a client from its forwarder."""

import pytest

from lethe.protocol.security.acls import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from lethe.protocol.security.authorizer import NOT_LOADED, Acls
from lethe.protocol.security.forwarded_clients import hosts_matter
from lethe.protocol.security.principals import ANONYMOUS, EVERYONE, Principal

HOST = "10.0.0.9"
ANN = Principal("User", "ann")


@pytest.mark.parametrize("permission", list(Permission))
@pytest.mark.parametrize(
    "principal, host, matters",
    [
        (ANONYMOUS, "*", False),
        (ANONYMOUS, HOST, True),
        (EVERYONE, "*", False),
        (EVERYONE, HOST, True),
        (ANN, HOST, False),
    ],
)
def test_hosts_matter(principal: Principal, host: str, matters: bool, permission: Permission) -> None:
    resource = ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, "pre")
    others = ResourcePattern(ResourceType.GROUP, PatternType.LITERAL, "*")
    acls = Acls.of(
        {
            others: (AclEntry(EVERYONE, "*", Operation.ALL, Permission.ALLOW),),
            resource: (AclEntry(principal, host, Operation.READ, permission),),
        }
    )
    assert hosts_matter(acls) is matters


def test_without_acls_and_before_they_are_read_hosts_do_not_matter() -> None:
    assert not hosts_matter(Acls.of({}))
    assert not hosts_matter(NOT_LOADED)
