"""The units of deploy/systemd: what they start exists, what they let it do is what it needs, and their files load."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from lethe.broker.runtime.configuration import load_broker_config
from lethe.controller.runtime.configuration import load_controller_config

ROOT: Final = Path(__file__).parents[3]
UNITS: Final = ROOT / "deploy" / "systemd"
DAEMONS: Final = ("controller", "broker")
SERVICES: Final = (*DAEMONS, "survey")
HARDENING: Final = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectControlGroups": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
}


def settings(name: str) -> dict[str, list[str]]:
    """Every setting of a unit with its values in order. None of ours is in two sections."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def service(name: str) -> dict[str, list[str]]:
    return settings(f"lethe-{name}.service")


def seconds(text: str) -> int:
    matched = re.fullmatch(r"(\d+)(s|min)", text)
    assert matched is not None, text
    return int(matched[1]) * (60 if matched[2] == "min" else 1)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_fenced_in(name: str) -> None:
    found = service(name)
    assert {key: found.get(key) for key in HARDENING} == {key: [value] for key, value in HARDENING.items()}
    assert found["User"] == ["lethe"]
    assert found["SystemCallFilter"] == ["@system-service", "~@privileged @resources"]
    assert found["CapabilityBoundingSet"] == (["CAP_DAC_READ_SEARCH"] if name == "survey" else [""])


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_is_started_with_a_file_that_is_here_and_loads(name: str) -> None:
    command = shlex.split(service(name)["ExecStart"][0])
    assert command[1:] == [name, f"/etc/lethe/{name}.properties"]
    path = UNITS / f"{name}.properties"
    config = load_controller_config(path, {}) if name == "controller" else load_broker_config(path, {})
    # Who deploys it chooses a token or a firewall, and is told so.
    (warning,) = config.warnings
    assert "HTTP asks for no token" in warning
    assert config.journal is not None
    written = [config.journal.directory, *getattr(config, "log_dirs", ())]
    (state,) = service(name)["StateDirectory"]
    assert all(str(each).startswith(f"/var/lib/{state}/") for each in written)


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_that_fails_again_and_again_is_given_up_and_none_is_given_up_too_soon(name: str) -> None:
    found = service(name)
    tries, within = int(found["StartLimitBurst"][0]), seconds(found["StartLimitIntervalSec"][0])
    assert found["Restart"] == ["on-failure"]
    assert 120 < tries * seconds(found["RestartSec"][0]) < within


@pytest.mark.parametrize("name", DAEMONS)
def test_one_that_hangs_is_not_waited_for_as_one_that_stops_in_order(name: str) -> None:
    """It takes no SIGTERM; TimeoutAbortSec would be TimeoutStopSec."""
    assert seconds(service(name)["TimeoutAbortSec"][0]) <= 10 < seconds(service(name)["TimeoutStopSec"][0])


def test_the_survey_writes_where_it_may_and_is_started_by_its_timer() -> None:
    found = service("survey")
    command = shlex.split(found["ExecStart"][0])
    assert command[1:3] == ["survey", "--textfile"]
    assert str(Path(command[3]).parent) == found["ReadWritePaths"][0]
    assert f"d {found['ReadWritePaths'][0]} " in (UNITS / "lethe.tmpfiles").read_text()
    assert settings("lethe-survey.timer")["OnCalendar"] == ["hourly"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_fault_with_a_misspelt_setting(tmp_path: Path) -> None:
    """What `make deploy-check` runs does find something."""
    unit = tmp_path / "lethe-controller.service"
    text = (UNITS / unit.name).read_text().replace("/opt/lethe/bin/lethe", "/bin/true")
    unit.write_text(text.replace("ProtectSystem=", "ProtectSytem="))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert "ProtectSytem" in checked.stderr
