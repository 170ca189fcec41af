"""Requests of clients about SCRAM users and features of the cluster, and their responses, independent of version.

Salts and salted passwords are secrets: the texts of these values do not show them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

# --- AlterUserScramCredentials ------------------------------------------------------------------------------------


class ScramDeletion(NamedTuple):
    """`mechanism`: Kafka's number of it, or another number that the client sent."""

    name: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A credential to store. `salted_password` is RFC 5802's SaltedPassword; the client derives it."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.name!r}, mechanism={self.mechanism}, iterations={self.iterations})"


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]

    @property
    def changes(self) -> tuple[ScramDeletion | ScramUpsertion, ...]:
        return *self.deletions, *self.upsertions


class AlteredUser(NamedTuple):
    """The result for one user."""

    user: str
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsResponse:
    users: tuple[AlteredUser, ...]
    throttle_time_ms: int = 0


# --- DescribeUserScramCredentials ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsRequest:
    users: tuple[str, ...] | None
    """None, as well as no user: all."""


class ScramInfo(NamedTuple):
    mechanism: int
    iterations: int


class DescribedUser(NamedTuple):
    user: str
    error: int
    message: str | None = None
    credentials: tuple[ScramInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsResponse:
    users: tuple[DescribedUser, ...]
    error: int = 0
    message: str | None = None
    throttle_time_ms: int = 0


# --- UpdateFeatures -----------------------------------------------------------------------------------------------


class UpgradeType(enum.IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    feature: str
    level: int
    """The highest version of the feature from then on. Below 1, a downgrade removes the feature."""
    upgrade_type: int
    """An UpgradeType, or another number that the client sent. Version 0 has the first two only."""


@dataclass(frozen=True, slots=True)
class UpdateFeaturesRequest:
    updates: tuple[FeatureUpdate, ...]
    timeout_ms: int
    validate_only: bool = False
    """Encoded from version 1 on."""


class UpdatedFeature(NamedTuple):
    """The result for one feature."""

    feature: str
    error: int
    message: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateFeaturesResponse:
    features: tuple[UpdatedFeature, ...]
    error: int = 0
    message: str | None = None
    throttle_time_ms: int = 0


# --- all of them --------------------------------------------------------------------------------------------------

ClusterRequest = AlterUserScramCredentialsRequest | DescribeUserScramCredentialsRequest | UpdateFeaturesRequest
ClusterResponse = AlterUserScramCredentialsResponse | DescribeUserScramCredentialsResponse | UpdateFeaturesResponse


def cluster_error_response(request: ClusterRequest, error: int, message: str | None = None) -> ClusterResponse:
    """Return the response with this error for the whole request: by user, or at the top, as Kafka has it."""
    match request:
        case AlterUserScramCredentialsRequest(changes=changes):
            names = sorted({each.name for each in changes})
            return AlterUserScramCredentialsResponse(tuple(AlteredUser(name, error, message) for name in names))
        case DescribeUserScramCredentialsRequest():
            # As Kafka's, the rows have no names.
            rows = tuple(DescribedUser("", error, message) for _ in request.users or ())
            return DescribeUserScramCredentialsResponse(rows, error, message)
        case UpdateFeaturesRequest():
            return UpdateFeaturesResponse((), error, message)


def cluster_errors(response: ClusterResponse) -> tuple[int, ...]:
    """Return the error at the top, where the response has one, then that of each row."""
    match response:
        case AlterUserScramCredentialsResponse(users=altered):
            return tuple(each.error for each in altered)
        case DescribeUserScramCredentialsResponse(users=described, error=error):
            return (error, *(each.error for each in described))
        case UpdateFeaturesResponse(features=features, error=error):
            return (error, *(each.error for each in features))
