"""What the container of a real broker makes of its environment, and when it calls itself healthy."""

from __future__ import annotations

import importlib.util
import socket
import threading
from pathlib import Path
from types import ModuleType

import pytest

from lethe.adapters.properties import parse_properties

SOURCE = Path(__file__).parents[3] / "deploy" / "images" / "kafka" / "run.py"


@pytest.fixture(scope="module")
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kafka_image_run", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_variables_become_properties_and_those_of_kafkas_scripts_do_not(run: ModuleType) -> None:
    environment = {
        "KAFKA_BROKER_ID": "11",
        "KAFKA_LOG_DIRS": "/data/a,/data/b",
        "KAFKA_SASL_JAAS_CONFIG": 'a "b\\c"',
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "PATH": "/bin",
        "LETHE_HTTP_PORT": "8080",
    }
    found, problems = parse_properties(run.properties(environment), "server.properties")
    assert not problems
    assert {name: setting.value for name, setting in found.items()} == {
        "broker.id": "11",
        "log.dirs": "/data/a,/data/b",
        "sasl.jaas.config": 'a "b\\c"',
    }


def test_java_gets_the_options_of_kafkas_scripts(run: ModuleType) -> None:
    command = run.command({"KAFKA_HEAP_OPTS": "-Xms1g -Xmx2g", "KAFKA_OPTS": "-Da='b c'"})
    assert command[0] == "java"
    assert {"-Xms1g", "-Xmx2g", "-Da=b c"} <= {*command}
    assert command[-2:] == ["kafka.Kafka", "/tmp/server.properties"]
    assert "-Xmx512m" in run.command({})


def test_a_broker_is_healthy_when_it_answers(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(run, "LIMIT_S", 0.2)
        assert not run.is_healthy(port)  # listens, and does not answer
        monkeypatch.setattr(run, "LIMIT_S", 60.0)

        def answer() -> None:
            server.accept()[0].close()  # the one from before
            connection, _ = server.accept()
            with connection:
                request = connection.recv(64)
                assert len(request) == 14
                connection.sendall(b"\0\0\0\4" + request[8:12])

        thread = threading.Thread(target=answer)
        thread.start()
        assert run.is_healthy(port)
        thread.join()
    assert not run.is_healthy(port)
