import pytest

from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.versions import (
    LATEST,
    SPOKEN,
    ControlVersions,
    InterBrokerProtocol,
    VersionRange,
    control_versions,
)

parse = InterBrokerProtocol.parse


@pytest.mark.parametrize(
    "text, meaning",
    [
        ("2.2", "2.2-IV1"),
        ("2.4", "2.4-IV1"),
        ("2.4-IV0", "2.4-IV0"),
        ("2.4.1", "2.4-IV1"),
        ("2.8-IV1", "2.8-IV1"),
        ("3.9", "3.9-IV0"),
        ("3.9-IV0", "3.9-IV0"),
        (" 3.4 ", "3.4-IV0"),
        ("3.7.2", "3.7-IV4"),
        ("0.10.2", "0.10.2-IV0"),
        ("0.10.0.1", "0.10.0-IV1"),
        ("0.9.0", "0.9.0"),
        ("1.0.2", "1.0-IV0"),
    ],
)
def test_a_release_means_its_last_internal_version(text: str, meaning: str) -> None:
    assert str(parse(text)) == meaning


@pytest.mark.parametrize(
    "text", ["", "2", "2.9", "2.4-IV7", "4.0", "4.0-IV0", "three", "2.4-iv1", "2.x", "-1.0", "0.10"]
)
def test_what_kafka_refuses_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"inter\.broker\.protocol\.version=.*from 2\.2 to 3\.9") as raised:
        parse(text)
    assert repr(text) in str(raised.value)


def test_order_is_by_age_and_not_by_spelling() -> None:
    ages = ["0.8.2", "0.10.0", "0.10.2", "1.1", "2.2", "2.4-IV0", "2.4", "2.8-IV0", "2.8-IV1", "3.0", "3.9"]
    assert sorted(map(parse, reversed(ages))) == [parse(age) for age in ages]
    assert parse("2.4") == parse("2.4-IV1")
    assert parse("3.9") == LATEST


def _open_gates(text: str) -> set[str]:
    ibp = parse(text)
    names = [
        *("has_feature_znode", "has_alter_partition", "creates_topic_ids"),
        *("has_leader_recovery_state", "has_kraft_controller_epoch"),
    ]
    return {name for name in names if getattr(ibp, name)}


def test_each_gate_opens_where_kafka_opens_it() -> None:
    steps = [
        ("2.6", "2.7-IV0", {"has_feature_znode"}),
        ("2.7-IV1", "2.7-IV2", {"has_alter_partition"}),
        ("2.7-IV2", "2.8-IV0", {"creates_topic_ids"}),
        ("3.1", "3.2-IV0", {"has_leader_recovery_state"}),
        ("3.3", "3.4-IV0", {"has_kraft_controller_epoch"}),
    ]
    for before, after, opened in steps:
        assert _open_gates(after) - _open_gates(before) == opened
        assert _open_gates(before) <= _open_gates(after)
    assert _open_gates("2.2") == set()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0.8.2", (0, 0, 0, 0)),
        ("0.9.0", (0, 1, 0, 1)),
        ("0.10.0-IV0", (0, 1, 0, 1)),
        ("0.10.0-IV1", (0, 2, 0, 1)),
        ("0.10.2", (0, 3, 0, 1)),
        ("0.11.0", (0, 3, 0, 1)),
        ("1.0", (1, 4, 0, 1)),
        ("2.1", (1, 4, 0, 1)),
        ("2.2-IV0", (2, 5, 1, 2)),
        ("2.3", (2, 5, 1, 2)),
        ("2.4-IV0", (3, 5, 1, 2)),
        ("2.4-IV1", (4, 6, 2, 3)),
        ("2.5", (4, 6, 2, 3)),
        ("2.6", (4, 6, 3, 3)),
        ("2.8-IV0", (4, 6, 3, 3)),
        ("2.8-IV1", (5, 7, 3, 3)),
        ("3.1", (5, 7, 3, 3)),
        ("3.2", (6, 7, 3, 3)),
        ("3.3", (6, 7, 3, 3)),
        ("3.4", (7, 8, 4, 3)),
        ("3.9", (7, 8, 4, 3)),
    ],
)
def test_request_versions_by_ibp(text: str, expected: tuple[int, int, int, int]) -> None:
    assert control_versions(parse(text))[:4] == expected


@pytest.mark.parametrize("text, version", [("2.2", 1), ("3.2", 1), ("3.3-IV0", 4), ("3.9", 4)])
def test_disks_are_asked_how_full_they_are_where_every_broker_can_tell(text: str, version: int) -> None:
    assert control_versions(parse(text)).of(ApiKey.DESCRIBE_LOG_DIRS) == version


def test_the_newest_ibp_uses_the_newest_versions_that_are_spoken() -> None:
    newest = control_versions(LATEST)
    for api in (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA, ApiKey.CONTROLLED_SHUTDOWN):
        assert newest.of(api) == SPOKEN[api].max


def test_versions_are_found_by_api() -> None:
    assert ControlVersions(5, 7, 3, 2).of(ApiKey.STOP_REPLICA) == 3
    with pytest.raises(KeyError):
        ControlVersions(5, 7, 3, 2).of(ApiKey.METADATA)


def test_a_range_knows_what_it_holds() -> None:
    assert [version for version in range(-1, 6) if version in VersionRange(1, 3)] == [1, 2, 3]
    assert str(VersionRange(0, 8)) == "0-8"
