"""Paths of the znodes that have clients' quotas. None stands for all users, or all client ids, without a znode of their
own; other names are sanitized as in Kafka."""

from __future__ import annotations

from lethe.protocol.zookeeper.paths import CONFIG_USERS, DEFAULT_ENTITY
from lethe.protocol.zookeeper.sanitizer import sanitized


def quota_of_user(user: str | None) -> str:
    """Return the path of the quotas that a user has whatever the client id."""
    return f"{CONFIG_USERS}/{_entity(user)}"


def quota_of_client(client_id: str | None) -> str:
    """Return the path of the quotas that a client id has whoever the user is."""
    return f"/config/clients/{_entity(client_id)}"


def quota_of_user_client(user: str | None, client_id: str | None) -> str:
    """Return the path of the quotas that a user has with a client id."""
    return f"{quota_of_user(user)}/clients/{_entity(client_id)}"


def _entity(name: str | None) -> str:
    return DEFAULT_ENTITY if name is None else sanitized(name)
