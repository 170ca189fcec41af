"""Random ACLs, settings and questions: few names, so that they meet. One seed gives one world."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from lethe.protocol.security.acls import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    acl_path,
    decode_acls,
)
from lethe.protocol.security.authorizer import UNREADABLE, Acls, Action, Authorizer, Client
from lethe.protocol.security.principals import Principal, parse_super_users
from lethe.protocol.zookeeper.json_fields import MalformedZnode
from tests.authorizer.kafka import Question

SETTINGS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"allow.everyone.if.no.acl.found": "true"},
    {"super.users": "User:root;User:CN=a, b,O=c; User:bob"},
    {"super.users": "User:root;User:ann", "allow.everyone.if.no.acl.found": "true"},
)
NAMES: Final = (
    "o",
    "order",
    "orders",
    "orders-eu",
    "orders-",
    "x",
    "*",
    "*x",
    "kafka-cluster",
    "é",
    "😀",
    "😀x",
    "Orders",
)
PRINCIPALS: Final = (
    Principal("User", "ann"),
    Principal("User", "bob"),
    Principal("User", "ANONYMOUS"),
    Principal("User", "CN=a, b,O=c"),
    Principal("User", "a:b"),
    Principal("user", "ann"),
    Principal("Group", "ann"),
    Principal("User", ""),
)
EVERYONE: Final = (Principal("User", "*"), Principal("user", "*"), Principal("Group", "*"))
HOSTS: Final = ("10.0.0.1", "127.0.0.1", "0:0:0:0:0:0:0:1")
HOSTS_OF_ACLS: Final = (*HOSTS, "*", "*", "::1", "localhost", "10.0.0.*", "")
PERMISSIONS: Final = (*Permission, Permission.ALLOW, Permission.ALLOW, Permission.DENY)
DESCRIBING: Final = (
    *(Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL),
    Operation.CREATE,
)
CONFIGURING: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL, Operation.READ)
ASKED: Final = tuple(operation for operation in Operation if operation is not Operation.UNKNOWN)


class World(NamedTuple):
    """What one seed makes."""

    seed: int
    setting: int
    """Index in SETTINGS."""
    znodes: Sequence[tuple[ResourcePattern, bytes]]
    questions: Sequence[Question]

    def described(self) -> str:
        """The whole set, to look at a mismatch."""
        lines = [f"seed {self.seed}, settings {dict(SETTINGS[self.setting])}"]
        lines += (f"  {acl_path(resource)}: {data.decode(errors='replace')}" for resource, data in self.znodes)
        return "\n".join(lines)


def authorizer_of(setting: int, acls: Acls) -> Authorizer:
    """Ours, with these settings."""
    settings = SETTINGS[setting]
    return Authorizer(
        acls,
        parse_super_users(settings.get("super.users", "")),
        settings.get("allow.everyone.if.no.acl.found") == "true",
    )


def loaded(znodes: Sequence[tuple[ResourcePattern, bytes]]) -> Acls:
    """The ACLs in these znodes, as the reader takes them."""
    found: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
    for resource, data in znodes:
        found[resource] = UNREADABLE if is_refused(resource, data) else decode_acls(acl_path(resource), data)
    return Acls.of(found)


def is_refused(resource: ResourcePattern, data: bytes) -> bool:
    """Whether Lethe cannot understand the znode."""
    try:
        decode_acls(acl_path(resource), data)
    except MalformedZnode:
        return True
    return False


def verdict(authorizer: Authorizer, question: Question) -> str:
    """Ours, in Kafka's letters."""
    return "A" if authorizer.allows(question.client, question.action) else "D"


class Pool(NamedTuple):
    """What one world is drawn from: little, so that ACLs meet each other and the questions."""

    types: Sequence[ResourceType] = tuple(ResourceType)
    names: Sequence[str] = NAMES
    principals: Sequence[Principal] = (*PRINCIPALS, *EVERYONE)
    hosts: Sequence[str] = HOSTS_OF_ACLS
    operations: Sequence[Operation] = tuple(Operation)

    def resource(self, rng: random.Random) -> ResourcePattern:
        return ResourcePattern(rng.choice(self.types), rng.choice(list(PatternType)), rng.choice(self.names))

    def entry(self, rng: random.Random) -> AclEntry:
        """One ACL; now and then with an operation or permission that no Kafka has."""
        return AclEntry(
            rng.choice(self.principals), rng.choice(self.hosts), rng.choice(self.operations), rng.choice(PERMISSIONS)
        )

    def question(self, rng: random.Random) -> Question:
        """Mostly about what there may be ACLs for."""
        principal = rng.choice(self.principals if rng.random() < 0.9 else PRINCIPALS)
        known = [host for host in self.hosts if host in HOSTS] or HOSTS
        client = Client(principal, rng.choice(known if rng.random() < 0.8 else HOSTS))
        asked = [operation for operation in self.operations if operation in ASKED] or ASKED
        operation, resource_type = rng.choice(asked if rng.random() < 0.9 else ASKED), rng.choice(self.types)
        name = rng.choice(self.names if rng.random() < 0.8 else NAMES) + rng.choice(("", "", "", "-eu", "x"))
        return Question(client, Action(operation, resource_type, name))

    def znode(self, rng: random.Random) -> bytes:
        """The data of a znode: names in any case, fields in any order, other fields among them."""
        items = []
        for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
            acl = self.entry(rng)
            fields = [
                ("principal", str(acl.principal)),
                ("permissionType", cased(rng, acl.permission.value)),
                ("operation", cased(rng, acl.operation.value)),
                ("host", acl.host),
            ]
            if rng.random() < 0.1:
                fields.append(("comment", "x"))
            rng.shuffle(fields)
            items.append(dict(fields))
        return json.dumps({"version": 1, "acls": items}, ensure_ascii=rng.random() < 0.5).encode()


def pool(rng: random.Random) -> Pool:
    related = rng.choice(((*Operation,), DESCRIBING, DESCRIBING, CONFIGURING))
    return Pool(
        rng.sample(list(ResourceType), rng.choice((1, 1, 2))),
        rng.sample(NAMES, rng.randint(1, 6)),
        (*rng.sample(PRINCIPALS, rng.choice((1, 1, 2, 3))), rng.choice((*EVERYONE, EVERYONE[0]))),
        (*rng.sample(HOSTS_OF_ACLS, rng.choice((1, 2))), "*"),
        rng.sample(related, min(len(related), rng.choice((1, 2, 3, 6)))),
    )


def world(seed: int) -> World:
    """Return what the seed makes."""
    rng = random.Random(seed)
    drawn = pool(rng)
    znodes = {
        ResourcePattern(rng.choice(drawn.types), rng.choice(list(PatternType)), rng.choice(drawn.names)): drawn.znode(
            rng
        )
        for _ in range(rng.choice((0, 1, 2, 3, 5, 8)))
    }
    questions = [drawn.question(rng) for _ in range(12)]
    return World(seed, rng.choice((0, 0, 1, 2, 3)), list(znodes.items()), questions)


def cased(rng: random.Random, name: str) -> str:
    return rng.choice((name, name, name.upper(), name.lower()))


def damaged(seed: int) -> World:
    """A world in which one znode is damaged in a few bytes, or whose bytes are moved."""
    rng = random.Random(seed)
    made = world(seed)
    znodes = list(made.znodes) or [
        (ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders"), Pool().znode(rng))
    ]
    place = rng.randrange(len(znodes))
    data = bytearray(znodes[place][1])
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case 2:
                data[at:at] = rng.choice(
                    (b'"', b"null", b"{", b"]", b"\\", b" ", b"1", b",", b"\xff", b"Any", b"Unknown")
                )
            case _:
                data[at:at] = data[at : at + rng.randint(1, 40)]
        if not data:
            data = bytearray(b" ")
    znodes[place] = (znodes[place][0], bytes(data))
    return made._replace(znodes=znodes)
