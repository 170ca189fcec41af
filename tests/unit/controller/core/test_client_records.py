"""What the journal says of clients' requests."""

from __future__ import annotations

import uuid

import pytest

from lethe.controller.core.client_records import record_of
from lethe.protocol.journal import EventRecordType
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.kafka.admin import (
    CreatableConfig,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeletableTopic,
    DeleteTopicsRequest,
    GrowableTopic,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignableTopic,
    TopicPartitions,
)
from lethe.protocol.kafka.to_controller import AdminRequest, error_response
from lethe.protocol.security.authorizer import Client, Sender
from lethe.protocol.security.principals import Principal
from lethe.protocol.vocabulary import TopicId, topic_id_to_text

ANN = Sender(Client(Principal("User", "ann"), "10.0.0.1"))
ID = TopicId(uuid.UUID(int=5))
SECRET = CreatableConfig("k", "hush")


@pytest.mark.parametrize(
    "request_, data",
    [
        (
            CreateTopicsRequest((CreatableTopic("a", 1, 1, (), (SECRET,)), CreatableTopic("a", 1, 1)), 1, True),
            {"api": "CREATE_TOPICS", "topics": 1, "names": "a", "errors": {"NOT_CONTROLLER": 2}, "validate_only": True},
        ),
        (
            DeleteTopicsRequest((DeletableTopic("a"), DeletableTopic(None, ID)), 1),
            {
                "api": "DELETE_TOPICS",
                "topics": 2,
                "names": f"a, {topic_id_to_text(ID)}",
                "errors": {"NOT_CONTROLLER": 2},
            },
        ),
        (
            CreatePartitionsRequest((GrowableTopic("a", 2),), 1),
            {
                "api": "CREATE_PARTITIONS",
                "topics": 1,
                "names": "a",
                "errors": {"NOT_CONTROLLER": 1},
                "validate_only": False,
            },
        ),
        (
            ElectLeadersRequest((TopicPartitions("a", (0,)),), 1, 1),
            {
                "api": "ELECT_LEADERS",
                "topics": 1,
                "names": "a",
                "errors": {"NONE": 1, "NOT_CONTROLLER": 1},
                "election": "UNCLEAN",
            },
        ),
        (
            ElectLeadersRequest(None, 1, 9),
            {"api": "ELECT_LEADERS", "topics": 0, "names": "", "errors": {"NOT_CONTROLLER": 1}, "election": "9"},
        ),
        (
            AlterPartitionReassignmentsRequest((ReassignableTopic("a", ()),), 1),
            {
                "api": "ALTER_PARTITION_REASSIGNMENTS",
                "topics": 1,
                "names": "a",
                "errors": {"NOT_CONTROLLER": 1},
            },
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_record_says_who_asked_for_what_and_what_became_of_it(
    request_: AdminRequest, data: dict[str, object]
) -> None:
    record = record_of(request_, ANN, error_response(request_, 41))
    assert record is not None
    assert (record.type, record.subject) == (EventRecordType.CLIENT_REQUEST, "client/User:ann")
    assert record.data == {**data, "host": "10.0.0.1"}
    assert schema_problems(record) == ()
    assert "hush" not in repr(record)


def test_what_only_reads_is_not_recorded() -> None:
    request = ListPartitionReassignmentsRequest(None, 1)
    assert record_of(request, ANN, error_response(request, 41)) is None


def test_many_and_long_names_are_cut() -> None:
    request = DeleteTopicsRequest(tuple(DeletableTopic(f"{n:02}" + "x" * 30_000) for n in range(25)), 1)
    record = record_of(request, ANN, error_response(request, 41))
    assert record is not None
    assert record.data["topics"] == 25
    names = str(record.data["names"]).split(", ")
    assert len(names) == 20
    assert {len(name) for name in names} == {249}
