"""Which changes of SCRAM credentials Kafka 3.9.1 refuses to clients, in its order and words.

    the user                                          error
    ------------------------------------------------  ---------------------------------------------------------------
    has no name                                       UNACCEPTABLE_CREDENTIAL
    and a mechanism that is unknown                   UNSUPPORTED_SASL_MECHANISM
    and too few or too many iterations                UNACCEPTABLE_CREDENTIAL
    is changed twice for one mechanism                DUPLICATE_RESOURCE
    loses a credential that does not exist            RESOURCE_NOT_FOUND
    gets a credential of an empty salted password     UNKNOWN_SERVER_ERROR

One change that is refused refuses all changes of its user, and none of another user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from typing import Final

from lethe.protocol.client_rows import RowRefused
from lethe.protocol.counting import counted
from lethe.protocol.kafka.admin_cluster import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramInfo,
    ScramUpsertion,
)
from lethe.protocol.kafka.errors import UNEXPECTED, ErrorCode
from lethe.protocol.security.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism

MECHANISMS: Final = {1: ScramMechanism.SHA_256, 2: ScramMechanism.SHA_512}
"""By Kafka's numbers."""
MAX_ITERATIONS: Final = 16_384
"""More are refused to clients; whoever writes to ZooKeeper may store them."""
MOST_USERS: Final = 10_000
"""Users or changes in one request. Kafka has no limit; to change so many takes the controller a second (measured)."""
NO_NAME: Final = "Username must not be empty"


def too_many(asked: Sized, what: str) -> str | None:
    """Return why a request about so many things (`what`: "user" or "change") is refused; None if it is not."""
    if len(asked) <= MOST_USERS:
        return None
    return f"The request has {counted(len(asked), what)}, and one request may have {MOST_USERS:,} at most."


def refused_users(request: AlterUserScramCredentialsRequest) -> dict[str, AlteredUser]:
    """Return the rows of the users whose changes are refused whatever is stored."""
    refused: dict[str, AlteredUser] = {}
    for change in request.changes:
        # Kafka names the last problem of a user, and looks at what is added after what is removed.
        if (problem := _problem(change)) is not None:
            refused[change.name] = AlteredUser(change.name, *problem)
    for (name, _), times in Counter((each.name, each.mechanism) for each in request.changes).items():
        if times > 1 and name not in refused:
            words = "A user credential cannot be altered twice in the same request"
            refused[name] = AlteredUser(name, ErrorCode.DUPLICATE_RESOURCE, words)
    return refused


def _problem(change: ScramDeletion | ScramUpsertion) -> tuple[ErrorCode, str] | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, NO_NAME
    if change.mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if not isinstance(change, ScramUpsertion) or MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
        return None
    words = "Too many iterations" if change.iterations > MAX_ITERATIONS else "Too few iterations"
    return ErrorCode.UNACCEPTABLE_CREDENTIAL, words


Change = ScramDeletion | ScramUpsertion


def changes_by_user(request: AlterUserScramCredentialsRequest) -> dict[str, list[Change]]:
    """Return the changes of each user, deletions first."""
    found: dict[str, list[Change]] = {}
    for change in request.changes:
        found.setdefault(change.name, []).append(change)
    return found


def altered_user(stored: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """Return the user's configuration after these changes of it, quotas included. Raises RowRefused."""
    config = dict(stored)
    for change in changes:
        mechanism = MECHANISMS[change.mechanism]
        if isinstance(change, ScramUpsertion):
            config[mechanism.value] = _credential(mechanism, change).text()
        elif config.pop(mechanism.value, None) is None:
            words = "Attempt to delete a user credential that does not exist"
            raise RowRefused(ErrorCode.RESOURCE_NOT_FOUND, words)
    return config


def _credential(mechanism: ScramMechanism, change: ScramUpsertion) -> ScramCredential:
    if not change.salted_password:
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED, why="the salted password is empty")
    return ScramCredential.of_salted(mechanism, change.salted_password, change.salt, change.iterations)


def credential_infos(stored: Mapping[str, str]) -> tuple[ScramInfo, ...]:
    """Return what may be shown of the user's credentials. Raises RowRefused if one of them is damaged."""
    found: list[ScramInfo] = []
    for number, mechanism in MECHANISMS.items():
        if (text := stored.get(mechanism.value)) is None:
            continue
        try:
            found.append(ScramInfo(number, ScramCredential.parse(text).iterations))
        except ValueError as problem:
            why = f"{mechanism.value}: {problem}"
            raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED, why=why) from None
    return tuple(found)
