"""ZooKeeper for commands: one session per command.

Who the command is at ZooKeeper comes from the environment, since other users can read command lines. The variables are
those that set the daemons' properties (`adapters.config_zookeeper`):

    LETHE_ZOOKEEPER_SASL_USERNAME, …_PASSWORD or …_PASSWORD_FILE   lethe.zookeeper.sasl.…
    KAFKA_JAVA_SECURITY_AUTH_LOGIN_CONFIG                          the brokers' JAAS file
    KAFKA_ZOOKEEPER_SSL_CLIENT_ENABLE, …_SSL_TRUSTSTORE_LOCATION   zookeeper.ssl.…
    LETHE_ZOOKEEPER_DIGEST                                         user:password

As with Kafka's tools, an authenticated command creates znodes with ACLs, but for KAFKA_ZOOKEEPER_SET_ACL=false.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from lethe.adapters.zookeeper.interface import SessionLost, WriteRefused, ZooKeeperSession, ZooKeeperUnavailable
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_znodes import NoCluster
from lethe.cli.answer import Answer
from lethe.survey.znodes import ZnodeUnreadable

if TYPE_CHECKING:
    from lethe.adapters.config_zookeeper import ZooKeeperAccess

CONNECTION_TIMEOUT_MS: Final = 10_000
_OURS: Final = "zookeeper."
"""How the names begin, behind `lethe.` or alone, in which a spelling mistake is looked for."""


async def with_session(connect: str, command: Callable[[ZooKeeperSession], Awaitable[Answer]]) -> Answer:
    """Run the command with a session. Raises ValueError for a malformed connect string, Refusal where ZooKeeper or the
    cluster in it cannot be reached."""
    try:
        async with open_for_command(connect) as session:
            return await command(session)
    except (ZooKeeperUnavailable, SessionLost, ZnodeUnreadable) as error:
        raise Refusal(f"{error} (--zookeeper {connect})", Exit.UNREACHABLE) from error
    except (NoCluster, WriteRefused) as error:
        raise Refusal(f"{error} (--zookeeper {connect})") from error


def open_for_command(connect: str) -> AbstractAsyncContextManager[ZooKeeperSession]:
    """Return a session of the user in the environment, to be entered. Raises ValueError for a malformed connect
    string."""
    from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
    from lethe.adapters.zookeeper.session import open_session

    access, set_acl = access_from(os.environ)
    config = ZooKeeperConfig(
        parse_connect_string(connect),
        connection_timeout_ms=CONNECTION_TIMEOUT_MS,
        set_acl=set_acl,
        credentials=() if access.credentials is None else (access.credentials,),
        sasl=access.sasl,
        tls=access.tls,
        create_chroot=False,
    )
    return open_session(config, lambda _: None)


def access_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say who the command is, for a controller that the command runs. Raises ValueError."""
    from lethe.adapters.config_environment import property_name, variable_name
    from lethe.adapters.config_zookeeper import ACCESS, SET_ACL
    from lethe.adapters.security.config_names import ZOOKEEPER_TLS

    _, set_acl = access_from(environ)
    names = {prop.name.lower() for prop in (*ACCESS, *ZOOKEEPER_TLS)}
    given = {
        variable: value
        for variable, value in environ.items()
        if variable.startswith(("KAFKA_", "LETHE_")) and property_name(variable.removeprefix("KAFKA_")) in names
    }
    return given | {variable_name(SET_ACL): str(set_acl).lower()}


def access_from(environ: Mapping[str, str]) -> tuple[ZooKeeperAccess, bool]:
    """Return who the command is, and whether its znodes get ACLs. Raises ValueError, without any secret."""
    from lethe.adapters.config_environment import unknown_variables
    from lethe.adapters.config_misspelt import misspelt
    from lethe.adapters.config_zookeeper import ACCESS, SET_ACL, read_access
    from lethe.adapters.properties import ConfigError, read_values, schema
    from lethe.adapters.security.config_names import ZOOKEEPER_TLS

    try:
        values = read_values(None, environ, schema(ACCESS, ZOOKEEPER_TLS))
        given = {**values.settings, **unknown_variables(environ, values.schema)}
        ours = {name: setting for name, setting in given.items() if name.removeprefix("lethe.").startswith(_OURS)}
        values.problems += misspelt(ours, values.schema)
        access = read_access(values)
        set_acl = access.has_identity if values.setting(SET_ACL) is None else values.boolean(SET_ACL)
        values.finish()
    except ConfigError as error:
        raise ValueError("; ".join(map(str, error.problems))) from error
    return access, set_acl
