"""ZooKeeper for commands: one session per command.

Credentials come from the environment, since other users can read command lines. As with Kafka's tools, an authenticated
command creates znodes with ACLs.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Final

from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperSession, ZooKeeperUnavailable
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_znodes import NoCluster
from lethe.cli.answer import Answer
from lethe.protocol.zookeeper.operations import Credentials
from lethe.survey.znodes import ZnodeUnreadable

DIGEST_VARIABLE: Final = "LETHE_ZOOKEEPER_DIGEST"
CONNECTION_TIMEOUT_MS: Final = 10_000


async def with_session(connect: str, command: Callable[[ZooKeeperSession], Awaitable[Answer]]) -> Answer:
    """Run the command with a session. Raises ValueError for a malformed connect string, Refusal where ZooKeeper or the
    cluster in it cannot be reached."""
    from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
    from lethe.adapters.zookeeper.session import open_session

    credentials = credentials_from(os.environ.get(DIGEST_VARIABLE))
    config = ZooKeeperConfig(
        parse_connect_string(connect),
        connection_timeout_ms=CONNECTION_TIMEOUT_MS,
        set_acl=bool(credentials),
        credentials=credentials,
        create_chroot=False,
    )
    try:
        async with open_session(config, lambda _: None) as session:
            return await command(session)
    except (ZooKeeperUnavailable, SessionLost, ZnodeUnreadable) as error:
        raise Refusal(f"{error} (--zookeeper {connect})", Exit.UNREACHABLE) from error
    except (NoCluster, WriteRefused) as error:
        raise Refusal(f"{error} (--zookeeper {connect})") from error


def credentials_from(digest: str | None) -> tuple[Credentials, ...]:
    """Return the credentials in `user:password`; none for no text. Raises ValueError, without the secret."""
    if not digest:
        return ()
    user, colon, password = digest.partition(":")
    if not (user and colon and password):
        raise ValueError(f"{DIGEST_VARIABLE} is not of the form user:password")
    return (Credentials("digest", digest.encode()),)
