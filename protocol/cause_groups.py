"""Groups of causes: which of them a controller reports, and which are none."""

from __future__ import annotations

from typing import Final

from lethe.protocol.causes import CauseKind

NOT_WAITED_FOR: Final = (CauseKind.DONE, CauseKind.TO_BE_OWED, CauseKind.BROKER_GIVEN_UP)
"""What is said of replicas that a deletion does not wait for."""
SET_ASIDE: Final = (CauseKind.READABLE_ZNODE, CauseKind.NAME_RESERVED, CauseKind.READABLE_TRASH)
"""Why a topic is out of service: the controller does not use its znode."""
FROM_CONTROLLER: Final = (
    CauseKind.RESUMPTION,
    CauseKind.CONFIGURATION,
    CauseKind.DISABLED,
    CauseKind.PROTECTED,
    CauseKind.OTHER_INCARNATION,
    CauseKind.NOT_CHOSEN,
    CauseKind.PACE,
    *SET_ASIDE,
    CauseKind.ORDERS,
    CauseKind.TRASH,
    CauseKind.REASSIGNMENT,
    CauseKind.MARKER_WITHOUT_TOPIC,
    CauseKind.HALF_DELETED,
    CauseKind.BROKER_TO_RETURN,
    CauseKind.CANNOT_BE_OWED,
    CauseKind.REGISTRATION_UNREADABLE,
    CauseKind.BROKER_TO_FINISH_SHUTDOWN,
    CauseKind.LOG_DIRECTORY,
    CauseKind.BROKER_REFUSES_EPOCH,
    CauseKind.BROKER_REFUSES_CONTROLLER,
    CauseKind.BROKER_NOT_SPOKEN,
    CauseKind.BROKER_NO_ACCESS,
    CauseKind.BROKER_ERROR,
    CauseKind.ANSWER,
    CauseKind.TOMBSTONE_ANSWER,
    CauseKind.OTHER_REPLICAS,
    CauseKind.TURN,
    CauseKind.ZNODES,
    CauseKind.TO_BE_OWED,
    CauseKind.BROKER_GIVEN_UP,
    CauseKind.DONE,
)
"""Causes that Lethe's controller reports for marked topics and their replicas."""
