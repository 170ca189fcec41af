"""What holds every deletion back: by the controller's answer, and without one."""

from __future__ import annotations

import pytest

from lethe.admin.controller_identity import ControllerIdentity
from lethe.admin.hold_causes import hold_causes
from lethe.protocol.causes import CauseKind
from lethe.survey.evidence import ControllerReport, DeletionHolds, DynamicSetting, ReportedPause

LETHE = ControllerIdentity(1001, True)
ENABLED, DISABLED = (DeletionHolds(delete_topic_enable=DynamicSetting(value, "/z")) for value in (True, False))
PAUSED = ReportedPause(CauseKind.RESUMPTION)
UNREAD = ReportedPause(CauseKind.CONFIGURATION, path="/z")


@pytest.mark.parametrize(
    "told,holds,causes,is_deleting",
    [
        (ControllerReport(deletion_enabled=True), DeletionHolds(), [], True),
        (ControllerReport(deletion_enabled=True, pauses=(PAUSED,)), DeletionHolds(), [], True),
        (ControllerReport(deletion_enabled=True), DISABLED, [], True),
        (ControllerReport(deletion_enabled=False), DeletionHolds(), [(CauseKind.DISABLED, None)], False),
        (ControllerReport(deletion_enabled=False), DISABLED, [(CauseKind.DISABLED, "/z")], False),
        (ControllerReport(pauses=(UNREAD,)), DeletionHolds(), [(CauseKind.CONFIGURATION, "/z")], False),
        (ControllerReport(), ENABLED, [], False),
        (ControllerReport(problem="no answer"), ENABLED, [], False),
        (ControllerReport(problem="no answer"), DISABLED, [(CauseKind.DISABLED, "/z")], False),
    ],
)
def test_by_the_answer_and_the_configuration(
    told: ControllerReport, holds: DeletionHolds, causes: list[tuple[CauseKind, str | None]], is_deleting: bool
) -> None:
    held = hold_causes(LETHE, told, holds)
    assert [(cause.kind, cause.path) for cause in held.causes] == causes
    assert held.is_deleting is is_deleting
    assert is_deleting or held.causes or held.unasked is not None


def test_without_a_controller_nothing_is_deleted() -> None:
    held = hold_causes(ControllerIdentity(None, False), ControllerReport(problem="none"), ENABLED)
    assert [cause.kind for cause in held.causes] == [CauseKind.NO_CONTROLLER]
    assert (held.unasked, held.is_deleting) == (None, False)
