"""Brokers for commands: how they are reached, by `--command-config`.

The file is read, and the stores and passwords that it names, before the cluster is asked. Passwords stand in files,
since other users can read command lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lethe.adapters.kafka.reach import BrokerReach
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.render import note

_WITHOUT_CONFIG: Final = BrokerReach(
    remedy="name a client.properties that has the broker's security.protocol, by --command-config FILE"
)


def reach_from(command_config: Path | None) -> BrokerReach:
    """Return how the file says that brokers are reached; PLAINTEXT without one. Raises Refusal with all its errors, and
    writes its warnings on standard error."""
    if command_config is None:
        return _WITHOUT_CONFIG
    from lethe.adapters.kafka.config_reach import load_client_reach
    from lethe.adapters.properties import ConfigError

    try:
        return load_client_reach(command_config, warn)
    except ConfigError as error:
        raise unusable_config(command_config, error) from error


def warn(text: str) -> None:
    """Write a warning about the file on standard error."""
    note(f"note: {text}")


def unusable_config(path: Path, error: Exception) -> Refusal:
    """Return the refusal of this file with these errors. It may have been named by the variable of the option."""
    return Refusal(f"{path}, which says how brokers are reached, cannot be used:\n{error}", Exit.USAGE)
