"""`lethe controller`: one controller, in the foreground."""

from __future__ import annotations

from lethe.adapters.logs import LogFormat
from lethe.cli.answer import Answer
from lethe.cli.daemons import File, LogLevel, Logs, run_daemon
from lethe.cli.running import finish_sync


def controller(file: File = None, log_level: LogLevel = "INFO", log_format: Logs = LogFormat.TEXT) -> None:
    """Run a controller until it is asked to stop (SIGTERM or SIGINT): active, or standing by.

    Exit code 0 where it was asked to stop, 1 where it could not go on, 2 where it could not start, 4 where it was asked
    to stop and brokers had not confirmed that their metadata caches have dropped deleted topics; the log names them.
    """

    def command() -> Answer:
        from lethe.controller.runtime.app import run
        from lethe.controller.runtime.configuration import load_controller_config

        return run_daemon(load_controller_config, run, file, log_level, log_format)

    finish_sync(command)
