"""AlterUserScramCredentials and DescribeUserScramCredentials: the credentials of SCRAM users in `/config/users`.

    the row                                     error
    ------------------------------------------  ---------------------------------------------------------------------
    fails a check                               `user_rules`
    its znode cannot be read or understood      UNKNOWN_SERVER_ERROR, and nothing is written over it
    its znode has changed since it was read     it is read again; after some attempts UNKNOWN_SERVER_ERROR
    is written                                  none; brokers are notified in the same multi

As in Kafka, a user's znode goes with its last setting, unless quotas of its clients lie below it. The client sends the
salted password, so neither side sends the password. No record of the journal has a salt, a key or a salted password.
Delegation tokens are no credentials of users: Kafka keeps them elsewhere, and lets any broker change them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from lethe.controller.core import requests, user_rules
from lethe.controller.core.config_requests import MAX_ATTEMPTS, MAX_PATH_SHOWN, stored_config
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_settings import (
    AlterRequestedUsers,
    DescribeRequestedUsers,
    RequestedUsersWritten,
    UsersListed,
    UsersToAlterRead,
    UsersToDescribeRead,
)
from lethe.controller.core.topic_creation_rules import RowRefused, check_size
from lethe.protocol.kafka.admin_cluster import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from lethe.protocol.kafka.errors import UNEXPECTED, ErrorCode
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.config_writes import config_notification, config_operations
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    GetChildren,
    GetData,
    Operation,
    ReadOutcome,
    ZkError,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome
from lethe.protocol.zookeeper.sanitizer import desanitized

_ALTERING: Final = "altering the SCRAM credentials that a client requested"
_DESCRIBING: Final = "describing the SCRAM credentials that a client asked for"
_OVERTAKEN: Final = (ZkError.BAD_VERSION, ZkError.NO_NODE, ZkError.NODE_EXISTS, ZkError.NOT_EMPTY)


# --- altering ---------------------------------------------------------------------------------------------------------


def alter(step: StepContext, task: AlterRequestedUsers) -> None:
    """Check the changes, and read the users' configurations."""
    request = requests.asked(step.context, task.key, AlterUserScramCredentialsRequest)
    if task.left is not None:
        _read(step, task, list(task.rows), task.left)
        return
    refused = user_rules.refused_users(request)
    users = dict.fromkeys(each.name for each in request.changes if each.name not in refused)
    _read(step, task, list(refused.values()), tuple(users))


def _read(step: StepContext, task: AlterRequestedUsers, rows: list[AlteredUser], users: Sequence[str]) -> None:
    left = []
    for user in users:
        if (problem := paths.path_problem(paths.config_user(user))) is None:
            left.append(user)
        else:
            rows.append(_unexpected(step, user, problem))
    if left:
        reads = (GetData(paths.config_user(user)) for user in left)
        step.read(reads, UsersToAlterRead(task, tuple(rows), tuple(left)))
    else:
        _end(step, task.key, rows)


def on_users_to_alter_read(step: StepContext, then: UsersToAlterRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Write the configurations of the users whose changes are accepted."""
    request = requests.asked(step.context, then.task.key, AlterUserScramCredentialsRequest)
    rows, writing = list(then.rows), []
    groups: list[tuple[Operation, ...]] = []
    changes = user_rules.changes_by_user(request)
    for user, outcome in zip(then.users, outcomes, strict=True):
        path = paths.config_user(user)
        try:
            config = user_rules.altered_user(stored_config(path, outcome), changes[user])
            writes = _writes(path, config, outcome)
            check_size(writes)
        except RowRefused as problem:
            is_expected = problem.error is not ErrorCode.UNKNOWN_SERVER_ERROR
            refused = AlteredUser(user, problem.error, problem.message)
            rows.append(refused if is_expected else _unexpected(step, user, str(problem)))
            continue
        writing.append(user)
        groups.append(writes)
    if groups:
        step.write(groups, RequestedUsersWritten(then.task, tuple(rows), tuple(writing)))
    else:
        _end(step, then.task.key, rows)


def _writes(path: str, config: Mapping[str, str], before: ReadOutcome) -> tuple[Operation, ...]:
    if not isinstance(before, Data):
        return config_operations(path, config, None)
    if not config and not before.stat.num_children:
        return Delete(path, before.stat.version), config_notification(path)
    return config_operations(path, config, before.stat.version)


def on_requested_users_written(
    step: StepContext, then: RequestedUsersWritten, outcomes: Sequence[GroupOutcome]
) -> None:
    """Answer; read the users again that others have written."""
    task, rows, again = then.task, list(then.rows), []
    for user, outcome in zip(then.users, outcomes, strict=True):
        match outcome:
            case GroupDone():
                rows.append(AlteredUser(user, ErrorCode.NONE))
            case GroupFailed(index_in_group=0, error=error) if error in _OVERTAKEN and task.attempts < MAX_ATTEMPTS:
                again.append(user)
            case _:
                rows.append(_unexpected(step, user, str(outcome)))
    if again:
        step.do(AlterRequestedUsers(task.key, tuple(again), tuple(rows), task.attempts + 1))
    else:
        # A write that was applied has checked the fence.
        _end(step, task.key, rows, checked=any(isinstance(outcome, GroupDone) for outcome in outcomes))


def _end(step: StepContext, key: int, rows: Sequence[AlteredUser], *, checked: bool = False) -> None:
    response = AlterUserScramCredentialsResponse(tuple(rows))
    (step.reply if checked else partial(requests.answer, step))(key, response)


def _unexpected(step: StepContext, user: str, why: str) -> AlteredUser:
    step.refuse("cluster", _ALTERING, f"user {user[:MAX_PATH_SHOWN]}: {why}")
    return AlteredUser(user, ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)


# --- describing -------------------------------------------------------------------------------------------------------


def describe(step: StepContext, task: DescribeRequestedUsers) -> None:
    """Read the configurations of the users, or first which users there are."""
    users = requests.asked(step.context, task.key, DescribeUserScramCredentialsRequest).users
    if not users:
        step.read((GetChildren(paths.CONFIG_USERS),), UsersListed(task.key))
        return
    named = Counter(users)
    found = {user: paths.config_user(user) for user in named if named[user] == 1}
    _read_to_describe(step, task.key, {user: path for user, path in found.items() if not paths.path_problem(path)})


def on_users_listed(step: StepContext, then: UsersListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read each user's configuration. If they cannot be listed, that is an error: nobody is left out."""
    (listed,) = outcomes
    if isinstance(listed, Children):
        found = {desanitized(name): f"{paths.CONFIG_USERS}/{name}" for name in listed.names}
        _read_to_describe(step, then.key, {user: found[user] for user in sorted(found)})
    elif is_absent(listed):
        requests.answer(step, then.key, DescribeUserScramCredentialsResponse(()))
    else:
        step.refuse("cluster", _DESCRIBING, f"listing {paths.CONFIG_USERS}: {listed}")
        requests.answer(
            step, then.key, DescribeUserScramCredentialsResponse((), ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
        )


def _read_to_describe(step: StepContext, key: int, users: Mapping[str, str]) -> None:
    """Read these users' configurations, by their paths."""
    then = UsersToDescribeRead(key, tuple(users))
    if users:
        step.read(map(GetData, users.values()), then)
    else:
        on_users_to_describe_read(step, then, ())


def on_users_to_describe_read(step: StepContext, then: UsersToDescribeRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Answer: with the users that were named, or with all that have credentials."""
    users = requests.asked(step.context, then.key, DescribeUserScramCredentialsRequest).users
    read = dict(zip(then.users, outcomes, strict=True))
    if users:
        named = Counter(users)
        rows = [_row(step, user, times, read.get(user)) for user, times in named.items()]
    else:
        rows = [row for user in then.users if (row := _row(step, user, 1, read[user])).error != _NOT_FOUND]
    requests.answer(step, then.key, DescribeUserScramCredentialsResponse(tuple(rows)))


_NOT_FOUND: Final = ErrorCode.RESOURCE_NOT_FOUND


def _row(step: StepContext, user: str, times: int, outcome: ReadOutcome | None) -> DescribedUser:
    if not user:
        return DescribedUser(user, _NOT_FOUND, user_rules.NO_NAME)
    if times > 1:
        words = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return DescribedUser(user, ErrorCode.DUPLICATE_RESOURCE, words)
    path = paths.config_user(user)
    try:
        if outcome is None:
            raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why="this is no path")
        credentials = user_rules.credential_infos(stored_config(path, outcome))
    except RowRefused as problem:
        step.refuse("cluster", _DESCRIBING, f"{path[:MAX_PATH_SHOWN]}: {problem}")
        return DescribedUser(user, ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
    if not credentials:
        return DescribedUser(user, _NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}")
    return DescribedUser(user, ErrorCode.NONE, None, credentials)
