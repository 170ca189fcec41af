"""What a znode of ACLs may hold that Kafka would not have written, and what Kafka and Lethe make of it."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from lethe.protocol.security.acls import Operation, PatternType, ResourcePattern, ResourceType
from lethe.protocol.security.authorizer import Action, Client
from lethe.protocol.security.principals import Principal
from tests.authorizer.kafka import Question

RESOURCE: Final = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
QUESTION: Final = Question(
    Client(Principal("User", "ann"), "10.0.0.1"), Action(Operation.READ, ResourceType.TOPIC, "orders")
)
"""Asked where everyone is allowed what no ACL is about."""

FAULT: Final = "fault"
"""Kafka does not start with such a znode; where it runs already it keeps the ACLs of before."""


class Hostile(NamedTuple):
    name: str
    data: bytes
    kafka: str
    """A, D or FAULT."""
    ours: str


def _znode(version: object = 1, **changes: object) -> bytes:
    item = {"principal": "User:ann", "permissionType": "Allow", "operation": "Read", "host": "*"} | changes
    return json.dumps({"version": version, "acls": [item]}).encode()


GOOD: Final = _znode()
HOSTILE: Final = (
    Hostile("an ACL that allows", GOOD, "A", "A"),
    Hostile("no data", b"", "A", "A"),
    Hostile("no ACLs", b'{"version":1,"acls":[]}', "A", "A"),
    # Kafka takes what is no JSON for a znode without ACLs: it allows what a damaged Deny had denied.
    Hostile("no JSON", b"rubbish", "A", "D"),
    Hostile("half of it", GOOD[:40], "A", "D"),
    Hostile("no UTF-8", GOOD.replace(b"ann", b"\xff\xfe"), "A", "D"),
    Hostile("more behind it", GOOD + b"}", "A", "D"),
    Hostile("UTF-16", GOOD.decode().encode("utf-16"), "A", "D"),
    Hostile("blanks", b"  ", FAULT, "D"),
    Hostile("null", b"null", FAULT, "D"),
    Hostile("an array", b"[]", FAULT, "D"),
    Hostile("a later version", _znode(2), FAULT, "D"),
    Hostile("a version that is a text", _znode("1"), FAULT, "D"),
    Hostile("a version that is no whole number", _znode(1.0), FAULT, "D"),
    Hostile("a version above 32 bits", _znode(2**32 + 1), FAULT, "D"),
    Hostile("no version", b'{"acls":[]}', FAULT, "D"),
    Hostile("no list of ACLs", b'{"version":1}', FAULT, "D"),
    Hostile("an ACL that is a text", b'{"version":1,"acls":["x"]}', FAULT, "D"),
    Hostile("a principal without a type", _znode(principal="ann"), FAULT, "D"),
    Hostile("an empty principal", _znode(principal=""), FAULT, "D"),
    Hostile("no principal", _znode(principal=None), FAULT, "D"),
    Hostile("a principal that is a list", _znode(principal=["User:ann"]), FAULT, "D"),
    Hostile("no host", _znode(host=None), FAULT, "D"),
    Hostile("a host that is a number", _znode(host=1), FAULT, "D"),
    Hostile("the operation Any", _znode(operation="Any"), FAULT, "D"),
    Hostile("the permission Any", _znode(permissionType="ANY"), FAULT, "D"),
    # From a newer Kafka, or mistyped: it matches nothing, and the resource has ACLs.
    Hostile("an unknown operation", _znode(operation="Fly"), "D", "D"),
    Hostile("an unknown permission", _znode(permissionType="Perhaps"), "D", "D"),
    Hostile("an operation with an underscore", _znode(operation="CLUSTER_ACTION"), "D", "D"),
    Hostile("a denial of an unknown operation", _znode(operation="Fly", permissionType="Deny"), "D", "D"),
    Hostile("small letters", _znode(operation="read", permissionType="allow"), "A", "A"),
    Hostile("a principal of a million letters", _znode(principal="User:" + "a" * 1_000_000), "D", "D"),
    Hostile("a host of a million letters", _znode(host="1" * 1_000_000), "D", "D"),
    Hostile(
        "ten thousand ACLs",
        json.dumps(
            {"version": 1, "acls": [json.loads(_znode(host=str(n)))["acls"][0] for n in range(10_000)]}
        ).encode(),
        "D",
        "D",
    ),
    Hostile("a field twice", GOOD.replace(b'"operation"', b'"operation": "Write", "operation"'), "A", "A"),
    # Of fields with one name the last one counts.
    Hostile("a later version before the version", GOOD.replace(b'"version"', b'"version": 2, "version"'), "A", "A"),
    Hostile("a later version behind it", GOOD.replace(b'"acls"', b'"version": 2, "acls"'), FAULT, "D"),
    Hostile("a list of ACLs behind another one", GOOD[:-1] + b', "acls": []}', "A", "A"),
    Hostile("another field", _znode(resource="Topic:other"), "A", "A"),
    Hostile("nested five hundred deep", GOOD.replace(b'"Read"', b'"Read","x":' + b"[" * 500 + b"]" * 500), "A", "A"),
)
