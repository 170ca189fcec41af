"""Tasks and continuations for clients' requests about configurations, SCRAM users and features: see `tasks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lethe.protocol.kafka.admin_cluster import AlteredUser, DescribedUser
from lethe.protocol.kafka.admin_configs import AlterableResource, AlteredResource


class UserZnode(NamedTuple):
    """A user, and the znode that has its configuration."""

    user: str
    path: str


# --- tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AlterRequestedConfigs:
    """Check and write what the AlterConfigs or IncrementalAlterConfigs request with this key alters.

    An attempt after the first one looks at the resources `left`; `rows` are those of all others."""

    key: int
    left: tuple[AlterableResource, ...] | None = None
    rows: tuple[AlteredResource, ...] = ()
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class DescribeRequestedConfigs:
    """Answer the DescribeConfigs request with this key with what ZooKeeper has."""

    key: int


@dataclass(frozen=True, slots=True)
class AlterRequestedUsers:
    """Check and write the credentials of the AlterUserScramCredentials request with this key.

    An attempt after the first one looks at the users `left`; `rows` are those of all others."""

    key: int
    left: tuple[str, ...] | None = None
    rows: tuple[AlteredUser, ...] = ()
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class DescribeRequestedUsers:
    """Answer the DescribeUserScramCredentials request with this key.

    Once the users are known: `left` are those to be read, `rows` what the others have."""

    key: int
    left: tuple[UserZnode, ...] | None = None
    rows: tuple[DescribedUser, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateRequestedFeatures:
    """Answer the UpdateFeatures request with this key."""

    key: int


SettingTask = (
    AlterRequestedConfigs
    | DescribeRequestedConfigs
    | AlterRequestedUsers
    | DescribeRequestedUsers
    | UpdateRequestedFeatures
)

# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigsToAlterRead:
    """After reading the configurations of these resources, in an attempt of the task."""

    task: AlterRequestedConfigs
    rows: tuple[AlteredResource, ...]
    resources: tuple[AlterableResource, ...]


@dataclass(frozen=True, slots=True)
class RequestedConfigsWritten:
    task: AlterRequestedConfigs
    rows: tuple[AlteredResource, ...]
    resources: tuple[AlterableResource, ...]


@dataclass(frozen=True, slots=True)
class ConfigsToDescribeRead:
    """After reading the controller's configuration, that of all brokers, and those of these topics."""

    key: int
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsersToAlterRead:
    """After reading the configurations of these users, in an attempt of the task."""

    task: AlterRequestedUsers
    rows: tuple[AlteredUser, ...]
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestedUsersWritten:
    task: AlterRequestedUsers
    rows: tuple[AlteredUser, ...]
    users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsersListed:
    key: int


@dataclass(frozen=True, slots=True)
class UsersToDescribeRead:
    """After reading these users' configurations; the others are those of DescribeRequestedUsers."""

    key: int
    znodes: tuple[UserZnode, ...]
    left: tuple[UserZnode, ...]
    rows: tuple[DescribedUser, ...]


SettingReadContinuation = (
    ConfigsToAlterRead | ConfigsToDescribeRead | UsersToAlterRead | UsersListed | UsersToDescribeRead
)
SettingWriteContinuation = RequestedConfigsWritten | RequestedUsersWritten
