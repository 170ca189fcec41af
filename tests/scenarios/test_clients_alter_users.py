"""Clients alter and describe SCRAM users, and update features: what they are answered, and what is stored then."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from lethe.controller.core import user_requests, user_rules
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribedUser,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    FeatureUpdate,
    ScramDeletion,
    ScramInfo,
    ScramUpsertion,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from lethe.protocol.kafka.errors import UNEXPECTED, ErrorCode
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.security.scram import ScramCredential, ScramMechanism, salted_password
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, SetData, ZkError
from tests.fakes.one_controller import Loss, OneController
from tests.scenarios.plot import another_is_elected_meanwhile, cluster

SALT = b"salt"
SECRETS = ("salt=", "stored_key", "server_key")


def upsert(name: str, mechanism: int = 2, iterations: int = 4096, password: str = "hush") -> ScramUpsertion:
    digest = "sha256" if mechanism == 1 else "sha512"
    return ScramUpsertion(name, mechanism, iterations, SALT, salted_password(digest, password, SALT, 4096))


def altered(*changes: ScramUpsertion | ScramDeletion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        tuple(each for each in changes if isinstance(each, ScramDeletion)),
        tuple(each for each in changes if isinstance(each, ScramUpsertion)),
    )


def rows_of(answer: object) -> list[tuple[str, str, str | None]]:
    assert isinstance(answer, AlterUserScramCredentialsResponse)
    return [(row.user, ErrorCode(row.error).name, row.message) for row in answer.users]


def stored(world: OneController, user: str) -> dict[str, str] | None:
    path = paths.config_user(user)
    found = world.read(path)
    return None if found is None else znodes.decode_config(path, found.data)


def test_a_credential_is_stored_as_kafka_stores_it() -> None:
    world = cluster()
    assert rows_of(world.ask(altered(upsert("a b", 1), upsert("a b", 2)), 0)) == [("a b", "NONE", None)]
    wanted = {each.value: ScramCredential.of(each, "hush", SALT, 4096).text() for each in ScramMechanism}
    assert stored(world, "a b") == wanted
    change = world.read(paths.config_change("0000000000"))
    assert change is not None
    assert change.data == b'{"version":2,"entity_path":"users/a%20b"}'


def test_the_last_credential_goes_with_the_znode_unless_quotas_stay() -> None:
    world = cluster()
    world.write(Create(paths.config_user("q"), znodes.encode_config({"producer_byte_rate": "5"})))
    world.ask(altered(upsert("u"), upsert("q"), upsert("c")), 0)
    world.write(Create(f"{paths.config_user('c')}/clients", None))
    request = altered(ScramDeletion("u", 2), ScramDeletion("q", 2), ScramDeletion("c", 2))
    assert [error for _, error, _ in rows_of(world.ask(request, 0))] == ["NONE", "NONE", "NONE"]
    assert stored(world, "u") is None
    assert stored(world, "q") == {"producer_byte_rate": "5"}
    assert stored(world, "c") == {}


NO_CREDENTIAL = "Attempt to delete a user credential that does not exist"
TWICE = "A user credential cannot be altered twice in the same request"


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ((upsert(""),), "UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        ((ScramDeletion("", 9),), "UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        ((upsert("u", 0),), "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        ((ScramDeletion("u", 3),), "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        ((upsert("u", 2, 4095),), "UNACCEPTABLE_CREDENTIAL", "Too few iterations"),
        ((upsert("u", 2, 16385),), "UNACCEPTABLE_CREDENTIAL", "Too many iterations"),
        ((ScramDeletion("u", 3), upsert("u", 2, 1)), "UNACCEPTABLE_CREDENTIAL", "Too few iterations"),
        ((upsert("u"), upsert("u")), "DUPLICATE_RESOURCE", TWICE),
        ((upsert("u"), ScramDeletion("u", 2)), "DUPLICATE_RESOURCE", TWICE),
        ((ScramDeletion("u", 1), upsert("u")), "RESOURCE_NOT_FOUND", NO_CREDENTIAL),
        ((ScramUpsertion("u", 2, 4096, SALT, b""),), "UNKNOWN_SERVER_ERROR", UNEXPECTED),
        ((upsert("."),), "UNKNOWN_SERVER_ERROR", UNEXPECTED),
    ],
)  # fmt: skip
def test_a_change_that_is_refused_refuses_all_of_its_user_and_none_of_others(
    changes: tuple[ScramUpsertion | ScramDeletion, ...], error: str, words: str
) -> None:
    world = cluster()
    rows = rows_of(world.ask(altered(*changes, upsert("other", 2, 16384)), 0))
    assert rows == [(changes[0].name, error, words), ("other", "NONE", None)]
    assert stored(world, "u") is None
    assert stored(world, "other") is not None


def test_a_change_of_another_process_in_between_stays() -> None:
    world = cluster()
    path = paths.config_user("u")

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            world.meanwhile = lambda _: None
            world.write(Create(path, znodes.encode_config({"producer_byte_rate": "5"})))

    world.meanwhile = meanwhile
    assert rows_of(world.ask(altered(upsert("u")), 0)) == [("u", "NONE", None)]
    assert set(stored(world, "u") or {}) == {"producer_byte_rate", "SCRAM-SHA-512"}


def test_a_user_that_changes_each_time_or_cannot_be_written_or_understood() -> None:
    world = cluster()
    path = paths.config_user("u")
    world.write(Create(path, znodes.encode_config({})), Create(paths.config_user("bad"), b"{"))
    world.read_only[paths.config_user("locked")] = ZkError.NO_AUTH

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and any(group[0].path == path for group in effect.groups):
            world.write(SetData(path, znodes.encode_config({}), -1))

    world.meanwhile = meanwhile
    rows = rows_of(world.ask(altered(upsert("u"), upsert("bad"), upsert("locked"), upsert("good")), 0))
    assert {user: (error, words) for user, error, words in rows} == {
        **dict.fromkeys(("u", "bad", "locked"), ("UNKNOWN_SERVER_ERROR", UNEXPECTED)),
        "good": ("NONE", None),
    }
    assert stored(world, "u") == {}


def test_who_has_lost_control_answers_so_and_writes_nothing() -> None:
    world = cluster()
    another_is_elected_meanwhile(world)
    assert rows_of(world.ask(altered(upsert("u")), 0)) == [("u", "NOT_CONTROLLER", None)]
    assert stored(world, "u") is None


@pytest.mark.parametrize("loss", list(Loss))
def test_a_write_whose_outcome_is_unknown_is_not_answered_as_done(loss: Loss) -> None:
    world = cluster()
    world.losing = lambda effect: loss if "/config/users" in str(effect.groups) else None
    assert rows_of(world.ask(altered(upsert("u")), 0)) == [("u", "NOT_CONTROLLER", None)]


def test_neither_the_journal_nor_a_text_has_a_secret() -> None:
    world = cluster()
    request = altered(upsert("u"), ScramDeletion("v", 1))
    world.ask(request, 0)
    (record,) = world.recorded(EventRecordType.CLIENT_REQUEST)
    assert record.data["api"] == "ALTER_USER_SCRAM_CREDENTIALS"
    assert record.data["names"] == "v, u"
    assert record.data["errors"] == {"NONE": 1, "RESOURCE_NOT_FOUND": 1}
    everything = repr([world.recorded(kind) for kind in EventRecordType]) + repr(request)
    secrets = (*SECRETS, repr(SALT), repr(request.upsertions[0].salted_password))
    assert [each for each in secrets if each in everything] == []


# --- describing -----------------------------------------------------------------------------------------------------


def described(world: OneController, *users: str) -> DescribeUserScramCredentialsResponse:
    answer = world.ask(DescribeUserScramCredentialsRequest(users or None), 0)
    assert isinstance(answer, DescribeUserScramCredentialsResponse)
    return answer


def test_users_are_described_by_mechanism_and_iterations() -> None:
    world = cluster()
    assert described(world).users == ()
    world.ask(altered(upsert("b", 1), upsert("b", 2, 8192), upsert("a b")), 0)
    world.write(Create("/config/users/<default>", znodes.encode_config({"producer_byte_rate": "5"})))
    everybody = (
        DescribedUser("a b", 0, None, (ScramInfo(2, 4096),)),
        DescribedUser("b", 0, None, (ScramInfo(1, 4096), ScramInfo(2, 8192))),
    )
    assert described(world) == DescribeUserScramCredentialsResponse(everybody)
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: x"
    assert described(world, "b", "x", "none", "", "x", ".").users == (
        everybody[1],
        DescribedUser("x", 92, twice),
        DescribedUser("none", 91, "Attempt to describe a user credential that does not exist: none"),
        DescribedUser("", 91, "Username must not be empty"),
        DescribedUser(".", -1, UNEXPECTED),
    )
    assert world.recorded(EventRecordType.CLIENT_REQUEST)[1:] == []


def test_a_user_that_cannot_be_read_is_not_left_out() -> None:
    world = cluster()
    damaged = {"SCRAM-SHA-256": "salt=hush"}
    world.write(
        Create(paths.config_user("bad"), b"{"), Create(paths.config_user("worse"), znodes.encode_config(damaged))
    )
    assert described(world).users == (DescribedUser("bad", -1, UNEXPECTED), DescribedUser("worse", -1, UNEXPECTED))
    assert "hush" not in repr(world.recorded(EventRecordType.REFUSAL))


def test_a_long_name_is_cut_in_the_records() -> None:
    world = cluster()
    name = "x" * 100_000
    world.refusals[paths.config_user(name)] = ZkError.MARSHALLING
    assert described(world, name).users == (DescribedUser(name, -1, UNEXPECTED),)
    assert rows_of(world.ask(altered(upsert(name)), 0)) == [(name, "UNKNOWN_SERVER_ERROR", UNEXPECTED)]
    records = world.recorded(EventRecordType.REFUSAL)
    assert len(records) == 2
    assert all("MARSHALLING" in str(record.data["why"]) and len(repr(record)) < 1_500 for record in records)


def test_users_are_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_requests, "USERS_AT_ONCE", 2)
    world = cluster()
    names = ("a", "b", "c", "d", "e")
    world.ask(altered(*map(upsert, names)), 0)
    world.write(Create(paths.config_user("quota"), znodes.encode_config({"producer_byte_rate": "5"})))
    reads: list[int] = []
    world.meanwhile = lambda effect: reads.append(len(effect.reads)) if isinstance(effect, ReadZnodes) else None
    everybody = tuple(DescribedUser(name, 0, None, (ScramInfo(2, 4096),)) for name in names)
    assert described(world).users == everybody
    assert reads == [1, 2, 2, 2]
    assert described(world, *reversed(names)).users == everybody[::-1]
    assert reads[4:] == [2, 2, 1]


def test_a_request_about_too_many_users_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_rules, "MOST_USERS", 2)
    world = cluster()
    words = "The request has 3 changes, and one request may have 2 at most."
    refused = [("u", "INVALID_REQUEST", words), ("v", "INVALID_REQUEST", None)]
    assert rows_of(world.ask(altered(upsert("u"), ScramDeletion("v", 1), ScramDeletion("v", 2)), 0)) == refused
    assert stored(world, "u") is None
    words = "The request has 3 users, and one request may have 2 at most."
    answer = DescribeUserScramCredentialsResponse((), ErrorCode.INVALID_REQUEST, words)
    assert described(world, "a", "b", "c") == answer
    assert rows_of(world.ask(altered(upsert("u"), upsert("v")), 0)) == [("u", "NONE", None), ("v", "NONE", None)]


QUOTA = {"producer_byte_rate": "5"}


@pytest.mark.parametrize(
    "of_all, others, iterations",
    [
        (QUOTA, {}, 4096),
        ({"SCRAM-SHA-512": 8192}, {}, 4096),
        (QUOTA, {"%3cdefault%3e": {"SCRAM-SHA-512": 8192}}, 4096),
        ({"SCRAM-SHA-512": 8192}, None, 8192),
        (QUOTA, None, None),
    ],
)
def test_the_znode_of_all_users_does_not_hide_a_user_of_its_name(
    of_all: Mapping[str, object], others: Mapping[str, Mapping[str, object]] | None, iterations: int | None
) -> None:
    """`others` are further znodes of that name; None: the user itself has no znode either."""
    world = cluster()
    world.write(Create("/config/users/<default>", user_config(of_all)))
    for name, config in (others or {}).items():
        world.write(Create(f"/config/users/{name}", user_config(config)))
    if others is not None:
        world.ask(altered(upsert("<default>")), 0)
    expected = () if iterations is None else (DescribedUser("<default>", 0, None, (ScramInfo(2, iterations),)),)
    assert described(world).users == expected
    assert stored(world, "<default>") is None or others is not None


def user_config(config: Mapping[str, object]) -> bytes:
    """A number stands for a credential of so many iterations."""
    texts = {
        name: ScramCredential.of(ScramMechanism(name), "hush", SALT, value).text()
        if isinstance(value, int)
        else str(value)
        for name, value in config.items()
    }
    return znodes.encode_config(texts)


# --- features -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "update, words",
    [
        (FeatureUpdate("", 1, 1), "Feature name can not be empty."),
        (FeatureUpdate("f", 1, 0), "Received unknown upgrade type."),
        (FeatureUpdate("f", 0, 2), "Can not delete non-existing finalized feature."),
        (
            FeatureUpdate("f", 0, 1),
            "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request.",
        ),
        (
            FeatureUpdate("metadata.version", 21, 1),
            "Could not apply finalized feature update because the provided feature is not supported.",
        ),
    ],
)
def test_no_feature_is_supported(update: FeatureUpdate, words: str) -> None:
    world = cluster()
    answer = world.ask(UpdateFeaturesRequest((update,), 1), 1)
    assert isinstance(answer, UpdateFeaturesResponse)
    assert (answer.error, answer.features) == (0, ((update.feature, ErrorCode.INVALID_REQUEST, words),))
    assert not world.exists("/feature")


def test_before_2_7_there_are_no_features() -> None:
    world = cluster(world=OneController(ibp=InterBrokerProtocol.parse("2.6")))
    answer = world.ask(UpdateFeaturesRequest((FeatureUpdate("f", 1, 1),), 1), 0)
    words = "Feature versioning system is disabled."
    assert answer == UpdateFeaturesResponse((), ErrorCode.INVALID_REQUEST, words)
