"""How brokers are reached, by `--command-config`: every command that asks brokers has it and checks it first."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.core import TyperGroup, TyperOption
from typer.main import get_command
from typer.testing import CliRunner

from lethe.adapters.kafka.reach import NoListener
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.broker_access import reach_from
from lethe.cli.main import app
from lethe.cli.pipeline_stream import source_security
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint, SecurityProtocol
from tests.fakes.certificates import Authority

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "correct-horse"
ASKING = {
    *(("survey",), ("explain",), ("doctor",), ("rescue",)),
    *(("topics", "delete"), ("topics", "plan-delete")),
    ("pipeline", "stream"),
    *(("brokers", "list"), ("brokers", "describe"), ("brokers", "settle"), ("partitions", "reassign")),
}
"""The commands that ask brokers."""


def client_properties(directory: Path, *, protocol: str = "SASL_SSL", user: str = "username") -> Path:
    ca = Authority().pem_file(directory / "ca.pem")
    path = directory / "client.properties"
    path.write_text(
        f"security.protocol={protocol}\nsasl.mechanism=SCRAM-SHA-512\nbootstrap.servers=b:1\n"
        f'sasl.jaas.config={MODULE} required {user}="lethe" password="{SECRET}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
    )
    return path


def test_without_a_file_brokers_are_reached_without_encryption_and_the_remedy_names_the_option() -> None:
    reach = reach_from(None)
    secured = Endpoint("SSL", "h", 1, SecurityProtocol.SSL)
    plain = Endpoint("INSIDE", "h", 2)
    assert reach.endpoint_of(Broker(BrokerId(1), BrokerEpoch(1), (secured, plain))) == plain
    with pytest.raises(NoListener, match=r"it has no PLAINTEXT listener \(it has SSL: SSL\); .*--command-config FILE"):
        reach.endpoint_of(Broker(BrokerId(1), BrokerEpoch(1), (secured,)))


def test_the_file_says_protocol_and_user(tmp_path: Path) -> None:
    (security,) = reach_from(client_properties(tmp_path)).security.values()
    assert (security.protocol, security.principal) == (SecurityProtocol.SASL_SSL, "User:lethe")
    assert SECRET not in repr(security)


@pytest.mark.parametrize(
    "protocol, user, words",
    [
        ("SASL", "username", "client.properties:1: security.protocol='SASL': is not one of the possible values"),
        ("SASL_SSL", "name", "ScramLoginModule has no username"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_without_its_secrets(
    tmp_path: Path, protocol: str, user: str, words: str
) -> None:
    with pytest.raises(Refusal, match=words) as refused:
        reach_from(client_properties(tmp_path, protocol=protocol, user=user))
    assert refused.value.exit is Exit.USAGE
    said = f"{tmp_path / 'client.properties'}, which says how brokers are reached, cannot be used:\n"
    assert str(refused.value).startswith(said), "LETHE_COMMAND_CONFIG may have named it"
    assert SECRET not in str(refused.value)


def commands() -> dict[tuple[str, ...], list[TyperOption]]:
    found = {}

    def walk(command: object, path: tuple[str, ...]) -> None:
        if isinstance(command, TyperGroup):
            for name, child in command.commands.items():
                walk(child, (*path, name))
        else:
            found[path] = [each for each in getattr(command, "params") if isinstance(each, TyperOption)]  # noqa: B009

    walk(get_command(app), ())
    return found


def test_a_stream_checks_the_file_and_keeps_its_secrets_out_of_options(tmp_path: Path) -> None:
    assert source_security(None) == {}
    options = source_security(client_properties(tmp_path))
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert SECRET not in str(options)
    with pytest.raises(
        Refusal, match="gone, which says .* cannot be used:\n.*gone: file: does not exist; name an existing file"
    ):
        source_security(tmp_path / "gone")


def test_every_command_that_asks_brokers_has_the_option_and_its_variable() -> None:
    having = {
        path: option for path, options in commands().items() for option in options if "--command-config" in option.opts
    }
    assert set(having) >= ASKING
    assert {option.envvar for option in having.values()} == {"LETHE_COMMAND_CONFIG"}


@pytest.mark.parametrize("command", sorted(ASKING - {("pipeline", "stream")}), ids=" ".join)
def test_a_wrong_file_is_reported_before_the_cluster_is_asked(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LETHE_COMMAND_CONFIG", str(tmp_path / "gone.properties"))
    names = {"describe": ["1"], "settle": ["1"], "reassign": ["orders:0=1"], "survey": [], "doctor": [], "list": []}
    arguments = names.get(command[-1], ["orders"])
    done = CliRunner().invoke(app, [*command, *arguments, "--zookeeper", "127.0.0.1:1"])
    assert done.exit_code == Exit.USAGE, done.output
    assert "gone.properties: file: does not exist; name an existing file with its whole path" in done.stderr


@pytest.mark.parametrize("command", [("survey",), ("brokers", "list"), ("topics", "delete", "orders")], ids=" ".join)
@pytest.mark.parametrize("protocol, times", [("", 1), ("security.protocol=PLAINTEXT\n", 0)])
def test_security_without_a_protocol_is_noted_once_beside_the_json(
    command: tuple[str, ...], protocol: str, times: int, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"{protocol}sasl.jaas.config={SECRET}\n")
    done = CliRunner().invoke(app, [*command, "--zookeeper", "127.0.0.1:1", "--command-config", str(path), "--json"])
    assert done.exit_code == Exit.UNREACHABLE, done.output
    noted = [line for line in done.stderr.splitlines() if "sasl.jaas.config" in line]
    assert len(noted) == times
    assert all(line.startswith(f"note: {path}:1: ") for line in noted)
    assert "sasl.jaas.config" not in done.stdout
    assert SECRET not in done.output


def test_a_stream_notes_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "client.properties"
    path.write_text("ssl.truststore.location=/x\n")
    source_security(path)
    assert "ssl.truststore.location: without security.protocol" in capsys.readouterr().err
