import pytest

from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue
from lethe.protocol.journal_schema import SCHEMAS, schema_problems

GOOD = EventRecord(
    EventRecordType.TRANSITION,
    "topic/orders",
    {"machine": "replica", "partitions": "0-3,7", "broker": 1, "before": "ONLINE", "after": "OFFLINE"},
)


def test_every_type_has_a_schema() -> None:
    assert set(SCHEMAS) == set(EventRecordType)


def test_a_fact_that_fits_has_no_problems() -> None:
    assert schema_problems(GOOD) == ()
    assert schema_problems(EventRecord(GOOD.type, GOOD.subject, {**GOOD.data, "later": [1]})) == ()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"partitions": "0-"}, "'partitions' is '0-'"),
        ({"partitions": 3}, "'partitions' is 3"),
        ({"broker": True}, "'broker' is True"),
        ({"broker": -2}, "'broker' is -2"),
        ({"after": None}, "'after' is None"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(change: dict[str, str | int | bool | None], words: str) -> None:
    (problem,) = schema_problems(EventRecord(GOOD.type, GOOD.subject, {**GOOD.data, **change}))
    assert problem.startswith(words)


def test_a_missing_key_and_a_strange_subject_are_named() -> None:
    data = {name: value for name, value in GOOD.data.items() if name != "before"}
    assert schema_problems(EventRecord(GOOD.type, "orders", data)) == (
        "the subject 'orders' is not like 'topic/.+'",
        "'before' is missing",
    )


def test_one_of_several_forms_is_enough() -> None:
    agent: dict[str, JsonValue] = {
        "broker": 1,
        "controller_epoch": 7,
        "delete": True,
        "partitions": "0",
        "error": "NONE",
    }
    controller: dict[str, JsonValue] = {
        "broker": 1,
        "broker_epoch": 9,
        "request_id": 4,
        "partitions": "0",
        "result": "NONE",
    }
    assert schema_problems(EventRecord(EventRecordType.ACK, "topic/orders", agent)) == ()
    assert schema_problems(EventRecord(EventRecordType.ACK, "topic/orders", controller)) == ()
    assert schema_problems(EventRecord(EventRecordType.ACK, "topic/orders", {"broker": 1})) != ()
    unasked: dict[str, JsonValue] = {"broker": 1001, "partitions": "0-3", "why": "placed on a controller"}
    for form in (agent, controller, unasked):
        assert schema_problems(EventRecord(EventRecordType.ACK, "topic/orders", {**form, "topic_id": None})) == ()
        assert (
            schema_problems(
                EventRecord(EventRecordType.ACK, "topic/orders", {**form, "topic_id": "VTu5pN0hRq6nZbPz5cyxtA"})
            )
            == ()
        )


def test_gaps_carry_real_times() -> None:
    gap: dict[str, int | str] = {"count": 3, "first": "2026-01-02T03:04:05.678Z", "last": "soon", "reason": "full"}
    assert schema_problems(EventRecord(EventRecordType.GAP, "controller/1", {**gap})) == (
        "'last' is 'soon', not RFC 3339 time",
    )


@pytest.mark.parametrize("replicas", [{"1-": "0"}, {"1": "0-"}, {"1": 0}, "1-3", None])
def test_replicas_are_ranges_of_brokers_and_of_their_partitions(replicas: JsonValue) -> None:
    said: dict[str, JsonValue] = {"machine": "replica", "before": "ONLINE", "after": "OFFLINE"}
    good = EventRecord(GOOD.type, GOOD.subject, {**said, "replicas": {"1-3,7": "0-49", "5": "3"}})
    assert schema_problems(good) == ()
    assert schema_problems(EventRecord(GOOD.type, GOOD.subject, {**said, "replicas": replicas})) != ()
