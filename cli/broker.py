"""`lethe broker`: one broker agent, in the foreground."""

from __future__ import annotations

from lethe.adapters.logs import LogFormat
from lethe.cli.answer import Answer
from lethe.cli.daemons import File, LogLevel, Logs, run_daemon
from lethe.cli.running import finish_sync


def broker(file: File = None, log_level: LogLevel = "INFO", log_format: Logs = LogFormat.TEXT) -> None:
    """Run a broker agent until it is asked to stop (SIGTERM or SIGINT).

    A StopReplica destroys data: without SASL or client certificates, and an authorizer, whoever reaches its listener
    can send one.
    Exit code 0 where it was asked to stop, 1 where it could not go on, 2 where it could not start.
    """

    def command() -> Answer:
        from lethe.broker.runtime.app import run
        from lethe.broker.runtime.configuration import load_broker_config

        return run_daemon(load_broker_config, run, file, log_level, log_format)

    finish_sync(command)
