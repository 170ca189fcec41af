"""Options of Spark's source for Kafka: names and places from the file, and no secret of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.properties import ConfigError
from lethe.pipeline.io.kafka_options import kafka_options

SECRET = "correct-horse"
TEXT = (
    "bootstrap.servers=elsewhere:1\ngroup.id=mine\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
    f'sasl.jaas.config=org.apache.Scram required username="lethe" \\\n  password="{SECRET}";\n'
    f"ssl.truststore.location=/etc/ca.p12\nssl.truststore.password={SECRET}\n"
    f"ssl.keystore.key={SECRET}\n"
)


def no_warning(text: str) -> None:
    raise AssertionError(text)


def written(directory: Path, text: str, name: str = "client.properties") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_secrets_are_references_and_only_what_secures_a_connection_is_passed_on(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    options = kafka_options(path, no_warning)
    assert options == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f"${{file:{path}:sasl.jaas.config}}",
        "kafka.ssl.truststore.location": "/etc/ca.p12",
        "kafka.ssl.truststore.password": f"${{file:{path}:ssl.truststore.password}}",
        "kafka.ssl.keystore.key": f"${{file:{path}:ssl.keystore.key}}",
        "kafka.config.providers": "file",
        "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    assert SECRET not in str(options)


def test_without_secrets_nothing_is_referred_to(tmp_path: Path) -> None:
    text = "security.protocol=SSL\nssl.truststore.type=PEM\n"
    options = kafka_options(written(tmp_path, text, "odd:name.properties"), no_warning)
    assert options == {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM"}


TOKEN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:///run/token\n"
HANDLER = "kafka.sasl.login.callback.handler.class"


def test_a_token_needs_no_more_lines_than_for_commands(tmp_path: Path) -> None:
    path = written(tmp_path, TOKEN)
    options = kafka_options(path, no_warning)
    assert options["kafka.sasl.jaas.config"].endswith(".OAuthBearerLoginModule required;")
    assert options[HANDLER] == "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    url = "sasl.oauthbearer.token.endpoint.url"
    assert options[f"kafka.{url}"] == f"${{file:{path}:{url}}}"


def test_lines_for_a_token_have_precedence(tmp_path: Path) -> None:
    path = written(tmp_path, f"{TOKEN}sasl.login.callback.handler.class=mine\nsasl.jaas.config=a.Module required;\n")
    options = kafka_options(path, no_warning)
    assert options[HANDLER] == "mine"
    assert options["kafka.sasl.jaas.config"] == f"${{file:{path}:sasl.jaas.config}}"
    other = written(tmp_path, TOKEN.replace("OAUTHBEARER", "PLAIN"))
    assert HANDLER not in kafka_options(other, no_warning)


def test_a_misspelt_line_does_not_lead_to_plaintext(tmp_path: Path) -> None:
    path = written(tmp_path, "client.id=me\nsecurity.protocl=SASL_SSL\n")
    with pytest.raises(ConfigError) as refused:
        kafka_options(path, no_warning)
    assert str(refused.value) == f"{path}:2: security.protocl: is unknown; write security.protocol, or remove the line"


def test_a_protocol_that_there_is_not_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL\n")
    with pytest.raises(ConfigError, match="client.properties:1: security.protocol='SASL': is not one of the possible"):
        kafka_options(file, no_warning)


def test_a_relative_path_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, TEXT)
    monkeypatch.chdir(tmp_path)
    options = kafka_options(Path("client.properties"), no_warning)
    assert options["kafka.sasl.jaas.config"] == f"${{file:{tmp_path}/client.properties:sasl.jaas.config}}"


@pytest.mark.parametrize(
    "name, line, words",
    [
        (
            "c.properties",
            "ssl.keystore.password.file=/etc/password",
            "is a name of Lethe's, which Spark's source does not have; write ssl.keystore.password itself",
        ),
        ("c.properties", "java.security.auth.login.config=/etc/jaas", "write sasl.jaas.config with the login module"),
        ("c.properties", "lethe.sasl.oauthbearer.token.command=get", "sasl.oauthbearer.token.endpoint.url"),
        ("c.properties", f"sasl.jaas.config=a.Plain required password=two {SECRET};", "sasl.jaas.config: .*mend that"),
        ("a:b.properties", f"ssl.keystore.password={SECRET}", "has a colon or a brace in its path"),
    ],
)
def test_what_spark_cannot_use_is_refused_with_a_remedy(tmp_path: Path, name: str, line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        kafka_options(written(tmp_path, f"security.protocol=SSL\n{line}\n", name), no_warning)
    assert SECRET not in str(refused.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"gone.properties: file: does not exist; name an existing file with its whole path"
    ):
        kafka_options(tmp_path / "gone.properties", no_warning)
