"""What the core and the connections of a controller get from its properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.controller.runtime.configuration import load_controller_config
from lethe.controller.runtime.configured import core_config
from lethe.protocol.listener_choice import ANY_PLAINTEXT, ListenerChoice
from lethe.protocol.vocabulary import SecurityProtocol

PLAINTEXT, SSL, SASL, SASL_SSL = SecurityProtocol


def choice(text: str, tmp_path: Path) -> ListenerChoice:
    path = tmp_path / "controller.properties"
    path.write_text(f"broker.id=1001\nzookeeper.connect=a\n{text}")
    return core_config(load_controller_config(path, {})).listener_choice


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", ANY_PLAINTEXT),
        ("inter.broker.listener.name=PLAINTEXT", ListenerChoice("PLAINTEXT")),
        ("security.inter.broker.protocol=SSL", ListenerChoice("SSL", (SSL,))),
        (
            "listener.security.protocol.map=A:PLAINTEXT,B:SSL\ncontrol.plane.listener.name=B\n",
            ListenerChoice("B", (SSL,)),
        ),
    ],
)
def test_the_core_chooses_among_what_is_configured(text: str, expected: ListenerChoice, tmp_path: Path) -> None:
    assert choice(text, tmp_path) == expected


def test_the_controllers_own_listener_has_the_name_of_the_brokers(tmp_path: Path) -> None:
    path = tmp_path / "controller.properties"
    path.write_text("broker.id=1001\nzookeeper.connect=a\nsecurity.inter.broker.protocol=SSL\n")
    assert load_controller_config(path, {}).inter_broker_listener == "SSL"
