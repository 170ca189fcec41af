"""AlterUserScramCredentials and DescribeUserScramCredentials: the credentials of SCRAM users in `/config/users`.

    the row                                     error
    ------------------------------------------  ---------------------------------------------------------------------
    is one of more than MOST_USERS              INVALID_REQUEST for the whole request
    fails a check                               `user_rules`
    its znode cannot be read or understood      UNKNOWN_SERVER_ERROR, and nothing is written over it
    its znode has changed since it was read     it is read again; after some attempts UNKNOWN_SERVER_ERROR
    is written                                  none; brokers are notified in the same multi

As in Kafka, a user's znode goes with its last setting, unless quotas of its clients lie below it. The client sends the
salted password, so neither side sends the password. No record of the journal has a salt, a key or a salted password.
Delegation tokens are no credentials of users: Kafka keeps them elsewhere, and lets any broker change them.

Without names in the request all users are described, USERS_AT_ONCE of them in one read. The parent has two kinds of
znodes that are no user's: `<default>`, which has the quotas of all users without their own, and names that others have
encoded in another way. As in Kafka, both are described under the decoded name if they have credentials:

    znodes                                           described as `<default>`
    -----------------------------------------------  ----------------------------------------------------------------
    `<default>` with quotas only                     not at all
    and `%3Cdefault%3E` with a credential            that credential: it is the user's, to logins and to changes too
    `<default>` with a credential, `%3Cdefault%3E`   the user's; Kafka shows the one that comes last in a hash map
    with another
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from lethe.controller.core import requests, user_rules
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_settings import (
    AlterRequestedUsers,
    DescribeRequestedUsers,
    RequestedUsersWritten,
    UsersListed,
    UsersToAlterRead,
    UsersToDescribeRead,
    UserZnode,
)
from lethe.protocol.client_rows import RowRefused, check_size
from lethe.protocol.config_alteration import MAX_ATTEMPTS, MAX_PATH_SHOWN, stored_config
from lethe.protocol.kafka.admin_cluster import (
    AlteredUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from lethe.protocol.kafka.errors import UNEXPECTED, ErrorCode
from lethe.protocol.kafka.to_controller import error_response
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
    if (too_many := user_rules.too_many(request.changes, "change")) is not None:
        # The reason in each row would make the answer far larger than its request.
        names = sorted({each.name for each in request.changes})
        whys = (too_many, *(None for _ in names[1:]))
        rows = tuple(AlteredUser(name, ErrorCode.INVALID_REQUEST, why) for name, why in zip(names, whys, strict=True))
        requests.answer(step, task.key, AlterUserScramCredentialsResponse(rows))
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

USERS_AT_ONCE: Final = 1_000
"""Users whose znodes are in memory together: a cluster may have a hundred thousand, and a znode may have a megabyte."""
_NOT_FOUND: Final = ErrorCode.RESOURCE_NOT_FOUND


def describe(step: StepContext, task: DescribeRequestedUsers) -> None:
    """Read the configurations of the users that were named, or find out first which users there are."""
    if task.left is not None:
        _describe_next(step, task.key, task.left, task.rows)
        return
    request = requests.asked(step.context, task.key, DescribeUserScramCredentialsRequest)
    users = request.users
    if not users:
        step.read((GetChildren(paths.CONFIG_USERS),), UsersListed(task.key))
    elif (too_many := user_rules.too_many(users, "user")) is not None:
        # A row for each name would make the answer far larger than its request.
        response = DescribeUserScramCredentialsResponse((), ErrorCode.INVALID_REQUEST, too_many)
        requests.answer(step, task.key, response)
    else:
        _describe_named(step, task.key, Counter(users))


def _describe_named(step: StepContext, key: int, named: Mapping[str, int]) -> None:
    left, rows = [], []
    for user, times in named.items():
        path = paths.config_user(user)
        if not user:
            rows.append(DescribedUser(user, _NOT_FOUND, user_rules.NO_NAME))
        elif times > 1:
            words = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            rows.append(DescribedUser(user, ErrorCode.DUPLICATE_RESOURCE, words))
        elif (problem := paths.path_problem(path)) is not None:
            rows.append(_not_described(step, UserZnode(user, path), problem))
        else:
            left.append(UserZnode(user, path))
    _describe_next(step, key, tuple(left), tuple(rows))


def on_users_listed(step: StepContext, then: UsersListed, outcomes: Sequence[ReadOutcome]) -> None:
    """Read each user's configuration. If they cannot be listed, that is an error: nobody is left out."""
    (listed,) = outcomes
    if isinstance(listed, Children):
        found = (UserZnode(desanitized(name), f"{paths.CONFIG_USERS}/{name}") for name in listed.names)
        _describe_next(step, then.key, tuple(sorted(found, key=_place)), ())
    elif is_absent(listed):
        requests.answer(step, then.key, DescribeUserScramCredentialsResponse(()))
    else:
        step.refuse("cluster", _DESCRIBING, f"listing {paths.CONFIG_USERS}: {listed}")
        request = requests.asked(step.context, then.key, DescribeUserScramCredentialsRequest)
        requests.answer(step, then.key, error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED))


def _place(znode: UserZnode) -> tuple[str, bool, str]:
    """Return the order of znodes: by user, and the user's own before others of that name."""
    return znode.user, znode.path != paths.config_user(znode.user), znode.path


def _describe_next(step: StepContext, key: int, left: tuple[UserZnode, ...], rows: tuple[DescribedUser, ...]) -> None:
    """Read the next users' configurations; answer if there are none."""
    if left:
        now, later = left[:USERS_AT_ONCE], left[USERS_AT_ONCE:]
        step.read((GetData(each.path) for each in now), UsersToDescribeRead(key, now, later, rows))
        return
    users = requests.asked(step.context, key, DescribeUserScramCredentialsRequest).users
    # A user's own znode was read before others of that name.
    by_user = {row.user: row for row in reversed(rows)}
    named = tuple(dict.fromkeys(users)) if users else sorted(by_user)
    requests.answer(step, key, DescribeUserScramCredentialsResponse(tuple(by_user[user] for user in named)))


def on_users_to_describe_read(step: StepContext, then: UsersToDescribeRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Go on to the next users. One without credentials is an error only if it was named."""
    is_named = bool(requests.asked(step.context, then.key, DescribeUserScramCredentialsRequest).users)
    found = (_row(step, znode, outcome) for znode, outcome in zip(then.znodes, outcomes, strict=True))
    rows = (*then.rows, *(row for row in found if is_named or row.error != _NOT_FOUND))
    step.do(DescribeRequestedUsers(then.key, then.left, rows))


def _row(step: StepContext, znode: UserZnode, outcome: ReadOutcome) -> DescribedUser:
    user, path = znode
    try:
        credentials = user_rules.credential_infos(stored_config(path, outcome))
    except RowRefused as problem:
        return _not_described(step, znode, str(problem))
    if not credentials:
        return DescribedUser(user, _NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}")
    return DescribedUser(user, ErrorCode.NONE, None, credentials)


def _not_described(step: StepContext, znode: UserZnode, why: str) -> DescribedUser:
    step.refuse("cluster", _DESCRIBING, f"{znode.path[:MAX_PATH_SHOWN]}: {why}")
    return DescribedUser(znode.user, ErrorCode.UNKNOWN_SERVER_ERROR, UNEXPECTED)
