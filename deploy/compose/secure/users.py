"""The brokers' users and their rights, in ZooKeeper before the first broker starts, for the profile `secure`.

`users.py FILE` takes the passwords by user from the file. The users are SCRAM's, as kafka-configs.sh writes them:

    kafka    brokers and agents; a super user, by their properties
    lethe    controllers: ClusterAction, and what docs/security.md asks for commands
    admin    commands: what docs/security.md asks for them, without ClusterAction
    client   applications: Read and Write of all topics, and all groups

A later run writes what is missing, and leaves what is there: rights that a person has changed stay changed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.cli.zookeeper_access import access_from
from lethe.protocol.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    acl_path,
    encode_acls,
)
from lethe.protocol.security.principals import parse_principal
from lethe.protocol.security.scram import ScramCredential, ScramMechanism
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, MultiDone, MultiFailed, ZkError
from lethe.protocol.zookeeper.znodes import encode_config

MECHANISM: Final = ScramMechanism.SHA_512
CONNECTION_TIMEOUT_MS: Final = 60_000
ALL_GROUPS: Final = ResourcePattern(ResourceType.GROUP, PatternType.LITERAL, WILDCARD)
ALL_TOPICS: Final = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, WILDCARD)
THE_CLUSTER: Final = ResourcePattern(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)
_SEES: Final = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
RIGHTS: Final[Mapping[ResourcePattern, Mapping[str, tuple[Operation, ...]]]] = {
    THE_CLUSTER: {"lethe": (Operation.CLUSTER_ACTION, *_SEES), "admin": _SEES},
    ALL_TOPICS: {"lethe": _SEES, "admin": _SEES, "client": (Operation.DESCRIBE, Operation.READ, Operation.WRITE)},
    ALL_GROUPS: {"lethe": (Operation.DESCRIBE,), "admin": (Operation.DESCRIBE,), "client": (Operation.READ,)},
}


def znodes(passwords: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """Give path and content of each znode."""
    for user, password in passwords.items():
        credential = ScramCredential.of(MECHANISM, password, secrets.token_bytes(16))
        yield paths.config_user(user), encode_config({MECHANISM.value: credential.text()})
    for pattern, users in RIGHTS.items():
        entries = [
            AclEntry(parse_principal(f"User:{user}"), WILDCARD, operation, Permission.ALLOW)
            for user, operations in users.items()
            for operation in operations
        ]
        yield acl_path(pattern), encode_acls(entries)


async def write(session: ZooKeeperSession, passwords: Mapping[str, str]) -> list[str]:
    """Write what is missing; return its paths. Raises RuntimeError where ZooKeeper refuses."""
    made = []
    for path, content in znodes(passwords):
        await session.ensure_path(paths.parent_of(path))
        match await session.multi([Create(path, content)]):
            case MultiDone():
                made.append(path)
            case MultiFailed(_, ZkError.NODE_EXISTS):
                pass
            case refused:
                raise RuntimeError(f"{path} cannot be written: {refused}")
    return made


async def main(passwords: Mapping[str, str]) -> None:
    """Write users and rights, and say which."""
    access, set_acl = access_from(os.environ)
    config = ZooKeeperConfig(
        parse_connect_string(os.environ["LETHE_ZOOKEEPER_CONNECT"]),
        connection_timeout_ms=CONNECTION_TIMEOUT_MS,
        set_acl=set_acl,
        sasl=access.sasl,
        tls=access.tls,
    )
    async with open_session(config, lambda _: None) as session:
        for path in await write(session, passwords) or ["nothing: all is there"]:
            sys.stderr.write(f"written: {path}\n")


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
