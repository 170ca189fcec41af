"""The rescue's controller, as the rescue sees it."""

from __future__ import annotations

from lethe.admin.rescue_control import RescueController
from lethe.controller.runtime.app import application
from lethe.controller.runtime.brokers import ChannelProblem
from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import BrokerId
from tests.fakes.runtime import controller_config


def test_a_refused_login_or_certificate_says_nothing_of_the_brokers_process() -> None:
    """As the survey has it: the broker may be healthy, and a setting has to change."""
    reasons = ["unreachable", "lost", "timeout", "login", "tls", "garbage"]
    app = application(controller_config())
    app.channel_problems = lambda: {BrokerId(n): ChannelProblem(reason, "", 1, 1) for n, reason in enumerate(reasons)}
    assert list(RescueController(app, 0).unreached.values()) == [
        CauseKind.BROKER_UNREACHABLE,
        CauseKind.BROKER_UNREACHABLE,
        CauseKind.BROKER_SILENT,
        CauseKind.BROKER_UNASKABLE,
        CauseKind.BROKER_UNASKABLE,
        CauseKind.BROKER_ERROR,
    ]
