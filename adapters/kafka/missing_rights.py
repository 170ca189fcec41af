"""The words for an answer with an error. Where an authorizer refuses a right: also who lacks it, and the remedy.

DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED for User:ann; grant it Describe on the cluster
"""

from __future__ import annotations

from typing import Final

from lethe.protocol.kafka.errors import ErrorCode, error_name
from lethe.protocol.security.acls import Operation

REFUSALS: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)
"""The errors of requests about topics, the cluster and groups."""
GRANT_DESCRIBE: Final = "grant it Describe on all topics"
GRANT_DESCRIBE_CLUSTER: Final = "grant it Describe on the cluster"
GRANT_DESCRIBE_CONFIGS: Final = "grant it DescribeConfigs on the cluster"
GRANT_COMMANDS: Final = "grant it ClusterAction on the cluster"


def grant_on_topic(operation: Operation, topic: str) -> str:
    """Return the remedy for a right that is needed for one topic."""
    return f"grant it {operation.value} on topic {topic}"


def grant_on_group(operation: Operation, group: str) -> str:
    """Return the remedy for a right that is needed for one consumer group."""
    return f"grant it {operation.value} on group {group}"


def answer_words(error: int, principal: str, grant: str) -> str:
    """Return the name of the error. If it is one of REFUSALS: also the principal that has asked, and the remedy."""
    return f"{error_name(error)} for {principal}; {grant}" if error in REFUSALS else error_name(error)
