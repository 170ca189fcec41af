"""Java's properties syntax, overrides from the environment, and what is said about mistakes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lethe.adapters import config_common
from lethe.adapters.config_environment import environment_settings, property_name
from lethe.adapters.config_listeners import with_ports
from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.properties import ConfigError, Values, parse_properties, unknown_names
from lethe.broker.runtime.configuration import BROKER_SCHEMA, BrokerConfig, load_broker_config
from lethe.controller.runtime.configuration import CONTROLLER_SCHEMA, ControllerConfig, load_controller_config
from lethe.protocol.vocabulary import Endpoint, SecurityProtocol

MINIMAL = "broker.id=3\nzookeeper.connect=localhost:2181\nlog.dirs=/var/lib/lethe\n"


def load(text: str, tmp_path: Path, environ: dict[str, str] | None = None) -> BrokerConfig:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return load_broker_config(path, environ or {})


def problems(text: str, tmp_path: Path, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(text, tmp_path, environ)
    return [str(problem) for problem in raised.value.problems]


# --- syntax -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text,expected",
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a  =  b c  ", {"a": "b c  "}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("# a=b\n! c=d\n\n  # e=f\ng=h", {"g": "h"}),
        ("a=b,\\\n   c", {"a": "b,c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b=c", {"a b": "c"}),
        ("a=\\t\\n\\x\\u0041", {"a": "\t\nxA"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
    ],
)
def test_javas_syntax(text: str, expected: dict[str, str]) -> None:
    found, wrong = parse_properties(text, "f")
    assert {name: setting.value for name, setting in found.items()} == expected
    assert wrong == []


def test_values_know_the_line_where_they_begin() -> None:
    found, _ = parse_properties("\n# x\na=b\\\nc\nd=e", "f")
    assert (found["a"].origin, found["d"].origin) == ("f:3", "f:5")


def test_a_character_may_be_written_as_two_escapes_as_in_java() -> None:
    settings, problems = parse_properties("a=\\ud83d\\ude00!\nb=\\u00e9", "f")
    assert ({name: each.value for name, each in settings.items()}, problems) == ({"a": "\U0001f600!", "b": "é"}, [])


def test_a_broken_escape_is_a_problem_and_the_rest_is_read() -> None:
    found, (problem,) = parse_properties("a=\\u12\nb=c", "f")
    assert "f:1" in str(problem)
    assert list(found) == ["b"]


def test_a_name_given_twice_with_different_values_is_a_contradiction(tmp_path: Path) -> None:
    (problem,) = problems(MINIMAL + "broker.id=4\n", tmp_path)
    assert "server.properties:4: broker.id='4'" in problem
    assert "server.properties:1" in problem
    assert load(MINIMAL + "broker.id=3\n", tmp_path).broker_id == 3


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "lethe.zookeeper.digest",
        "sasl.jaas.config",
        "listener.name.x.ssl.keystore.key",
        "my.token",
    ],
)
def test_problems_with_the_lines_of_a_secret_do_not_show_it(name: str) -> None:
    for text in (f"{name}=one-secret\n{name}=another-secret", f"{name}=a\\users-secret"):
        _, (problem,) = parse_properties(text, "f")
        assert "secret" not in str(problem).replace(name, "")
        assert "users" not in str(problem)


def test_the_rest_of_a_key_whose_lines_are_not_joined_is_not_shown() -> None:
    settings, _ = parse_properties(
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49\nAbc9=", "f"
    )
    assert unknown_names(settings, ()) == [
        f"f:{line}: a line without the name of a property is ignored; if it continues a value, end the line before it "
        "with a backslash"
        for line in (2, 3)
    ]


@pytest.mark.parametrize("line", ["bozypvhgtw==", "bozypvhgtwq=", "bozypvhgtwqx"])
def test_the_last_line_of_a_key_is_not_shown_though_it_has_small_letters_alone(line: str) -> None:
    (said,) = unknown_names(parse_properties(line, "f")[0], ("listeners",))
    assert "without the name of a property" in said
    assert "bozypvhgtw" not in said


def test_a_short_name_is_shown_where_it_has_a_value_or_is_nearly_known() -> None:
    given, _ = parse_properties("bozypvhgtw=true\nlisteners_=", "f")
    assert unknown_names(given, ("listeners",)) == [
        "f:1: unknown property 'bozypvhgtw' is ignored",
        "f:2: unknown property 'listeners_' is ignored; did you mean listeners?",
    ]


def test_values_are_not_part_of_their_representation() -> None:
    assert "hidden" not in repr(Values({}, parse_properties("ssl.key.password=hidden", "f")[0], []))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.properties: file: does not exist; name an existing file"):
        load_broker_config(tmp_path / "nowhere.properties", {})


def test_a_file_in_latin_1_is_read_as_java_does(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(MINIMAL.encode() + b"broker.rack=K\xf6ln\n")
    assert load_broker_config(path, {}).rack == "Köln"


# --- the environment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variable,name",
    [("ZOOKEEPER_CONNECT", "zookeeper.connect"), ("A__B_C", "a_b.c"), ("A___B", "a-b"), ("X_Y____Z", "x.y-.z")],
)
def test_names_of_variables(variable: str, name: str) -> None:
    assert property_name(variable) == name


def test_the_environment_comes_first(tmp_path: Path) -> None:
    config = load(
        MINIMAL, tmp_path, {"KAFKA_BROKER_ID": "7", "LETHE_HTTP_PORT": "8080", "KAFKA_LETHE_HTTP_HOST": "::1"}
    )
    assert (config.broker_id, config.http.port, config.http.host) == (7, 8080, "::1")


def test_a_wrong_value_from_the_environment_names_its_variable(tmp_path: Path) -> None:
    (problem,) = problems(MINIMAL, tmp_path, {"KAFKA_BROKER_ID": "x"})
    assert problem.startswith("environment variable KAFKA_BROKER_ID: broker.id='x': is not a whole number")


def test_a_variable_that_is_not_utf_8_is_refused_without_its_value(tmp_path: Path) -> None:
    (problem,) = problems(MINIMAL, tmp_path, {"KAFKA_SASL_JAAS_CONFIG": "hunter2\udcff"})
    named = "environment variable KAFKA_SASL_JAAS_CONFIG: sasl.jaas.config"
    assert problem == f"{named}: has a character that is no text; write it in UTF-8"


def test_variables_that_are_no_properties_are_left_alone() -> None:
    environ = {"KAFKA_HEAP_OPTS": "-Xmx1g", "LETHE_COLOUR": "blue", "PATH": "/bin"}
    assert environment_settings(environ, ["lethe.http.port"]) == {}


def test_a_misspelt_variable_of_ours_is_told(tmp_path: Path) -> None:
    environ = {
        "LETHE_HTPP_PORT": "1",
        "LETHE_ZOOKEEPER_CONNECT": "zk:2181",
        "LETHE_ZOOKEEPER_DIGEST": "a:b",
        "LETHE_HTTP_SERVICE_HOST": "10.0.0.1",
        "LETHE_HTTP_PORT_8080_TCP_ADDR": "10.0.0.1",
        "LETHE_BOARD_PORT": "tcp://10.0.0.1:80",
    }
    (warning,) = load(MINIMAL, tmp_path, environ).warnings
    assert warning == (
        "environment variable LETHE_HTPP_PORT: unknown property 'lethe.htpp.port' is ignored; "
        "did you mean lethe.http.port?"
    )


def test_what_is_missing_without_a_file_is_asked_for_as_a_variable() -> None:
    with pytest.raises(ConfigError) as raised:
        load_broker_config(None, {"KAFKA_LOG_DIRS": "/x"})
    said = {problem.name: problem.remedy for problem in raised.value.problems}
    assert said["broker.id"].startswith("set KAFKA_BROKER_ID (")
    assert said["zookeeper.connect"].startswith("set KAFKA_ZOOKEEPER_CONNECT (")


def test_without_a_file_the_environment_is_enough() -> None:
    environ = {"KAFKA_BROKER_ID": "1", "KAFKA_ZOOKEEPER_CONNECT": "zk:2181/kafka", "KAFKA_LOG_DIRS": "/x,/y"}
    config = load_broker_config(None, environ)
    assert config.log_dirs == (Path("/x"), Path("/y"))
    assert config.zookeeper.connect == "zk:2181/kafka"


# --- what is said about mistakes ----------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    found = problems("broker.id=x\nlisteners=nonsense\nzookeeper.set.acl=maybe\n", tmp_path)
    named = [problem.split(": ")[1].partition("=")[0] for problem in found]
    assert sorted(named) == ["broker.id", "listeners", "log.dirs", "zookeeper.connect", "zookeeper.set.acl"]


@pytest.mark.parametrize(
    "line,expected",
    [
        ("broker.id=-1", "is out of range; write a whole number from 0 to"),
        ("node.id=4", "contradicts node.id=4"),
        ("process.roles=broker", "KRaft"),
        ("zookeeper.connect=zk:0", "'zk:0' is not host:port"),
        ("zookeeper.connect=zk:2181//a", "zookeeper.connect"),
        ("zookeeper.connect=a b", "is not host:port"),
        ("zookeeper.set.acl=true", "set lethe.zookeeper.digest=user:password too"),
        ("zookeeper.session.timeout.ms=0", "of milliseconds from 1"),
        ("log.dirs=/a,/b,/a", "names /a twice"),
        ("log.dirs=/a,/a/b", "/a/b lies inside /a"),
        ("log.dirs=/", "the root of the file system"),
        ("log.dirs=,", "names no directory"),
        ("listeners=PLAINTEXT://:9092,PLAINTEXT://:9093", "names listener PLAINTEXT twice"),
        ("listeners=SSL://:9093", "ssl.keystore.location: is missing: a listener with TLS shows a certificate"),
        ("listeners=INSIDE://:9093", "INSIDE has no security protocol"),
        ("listeners=PLAINTEXT://:99999", "is not a listener"),
        ("listeners=PLAINTEXT://0.0.0.0:9092", "no address that others can connect to"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", "no address that others can connect to"),
        ("listener.security.protocol.map=A:PLAINTEXT,B", "'B' is not NAME:PROTOCOL"),
        ("inter.broker.listener.name=OTHER", "is not among listeners"),
        ("lethe.fill.bytes=-1", "write a whole number of bytes from 0 on"),
        ("lethe.http.port=70000", "from 0 to 65535"),
    ],
)
def test_mistakes(line: str, expected: str, tmp_path: Path) -> None:
    name = line.partition("=")[0]
    kept = "".join(text + "\n" for text in MINIMAL.splitlines() if not text.startswith(name + "="))
    found = problems(kept + line + "\n", tmp_path)
    assert any(expected in problem for problem in found), found


@pytest.mark.parametrize(
    "data,place",
    [
        (b"\x1f\x8b\x08\x00\xc3\x28\x00", "byte 0x1f at offset 0"),
        (b"broker.id=1\n\x00\n", "byte 0x00 at offset 12"),
        (b"\xe9\x7f", "byte 0x7f at offset 1"),
        (MINIMAL.encode("utf-16"), "byte 0x00 at offset 3"),
        (random.Random(7).randbytes(512), "at offset"),
    ],
)
def test_what_is_no_text_is_no_properties_file(data: bytes, place: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as raised:
        load_broker_config(path, {})
    (problem,) = map(str, raised.value.problems)
    assert f"{path}: file: is no properties file: " in problem
    assert place in problem
    with pytest.raises(ConfigError, match="is no properties file"):
        load_controller_config(path, {})


@pytest.mark.parametrize("text", ["# café\r\n\t\f", "\ufeff# byte order mark\n", "# a colour: \x1b[0m\n", "# \u2192\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_text_in_either_encoding_is_read(text: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes((text + MINIMAL).encode(encoding, "replace"))
    assert load_broker_config(path, {}).broker_id == 3


def test_listeners_and_advertised_listeners_must_match(tmp_path: Path) -> None:
    text = MINIMAL + (
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\nlisteners=A://:9092\nadvertised.listeners=B://h:9092\n"
    )
    (problem,) = problems(text, tmp_path)
    assert "listener B is not among listeners (A)" in problem


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    (problem,) = problems(MINIMAL + "lethe.zookeeper.digest=hunter2\n", tmp_path)
    assert "hunter2" not in problem
    config = load(MINIMAL + "lethe.zookeeper.digest=user:hunter2\n", tmp_path)
    assert config.zookeeper.credentials is not None
    assert config.zookeeper.credentials.secret == b"user:hunter2"
    assert "hunter2" not in repr(config)


def test_unknown_names_are_reported_with_the_nearest_known_one(tmp_path: Path) -> None:
    (warning,) = load(MINIMAL + "zookeper.connect=x\n", tmp_path).warnings
    assert "server.properties:4" in warning
    assert warning.endswith("did you mean zookeeper.connect?")
    (warning,) = load(MINIMAL + "colour=blue\n", tmp_path).warnings
    assert "did you mean" not in warning


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("ssl.client.aut", "ssl.client.auth"),
        ("listener.name.internal.ssl.client.autth", "listener.name.internal.ssl.client.auth"),
        (
            "listener.name.internal.scram-sha-512.sasl.jaas.confg",
            "listener.name.internal.scram-sha-512.sasl.jaas.config",
        ),
        ("sasl.server.max.recieve.size", "sasl.server.max.receive.size"),
        ("zookeeper.ssl.endpoint.identifcation.algorithm", "zookeeper.ssl.endpoint.identification.algorithm"),
        ("super.userss", "super.users"),
        ("authorizer.clas.name", "authorizer.class.name"),
    ],
)
def test_a_misspelt_name_is_reported_also_where_plug_ins_may_choose_names(
    wrong: str, right: str, tmp_path: Path
) -> None:
    text = f"{MINIMAL}listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:SSL\n{wrong}=x\n"
    (warning,) = (each for each in load(text, tmp_path).warnings if wrong in each)
    assert warning.endswith(f"server.properties:5: unknown property '{wrong}' is ignored; did you mean {right}?")


def test_a_property_of_a_listener_that_nobody_names_is_reported(tmp_path: Path) -> None:
    text = MINIMAL + "listeners=PLAINTEXT://127.0.0.1:9092\n"
    (warning,) = load(text + "listener.name.internl.ssl.client.auth=required\n", tmp_path).warnings
    assert warning.endswith(
        "'listener.name.internl.ssl.client.auth' is of no listener that is named here (plaintext), and is ignored"
    )
    assert load(text + "listener.name.plaintext.ssl.client.auth=required\n", tmp_path).warnings == ()


def test_what_only_a_plug_in_knows_raises_no_warning(tmp_path: Path) -> None:
    assert load(MINIMAL + "ssl.vault.address=x\nauthorizer.ranger.url=y\n", tmp_path).warnings == ()


def test_kafkas_own_file_raises_no_warning(tmp_path: Path) -> None:
    text = (
        "num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\nlog.retention.hours=168\n"
        "num.partitions=1\noffsets.topic.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "group.initial.rebalance.delay.ms=0\nunclean.leader.election.enable=false\ncontrolled.shutdown.enable=true\n"
        "listener.name.internal.ssl.keystore.location=/x\nauto.create.topics.enable=false\n"
    )
    assert load(MINIMAL + text, tmp_path).warnings == ()


# --- what comes out -----------------------------------------------------------------------------------------------


def test_defaults_of_an_agent(tmp_path: Path) -> None:
    config = load(MINIMAL, tmp_path)
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.advertised_listeners == config.listeners
    assert config.inter_broker_listener == "PLAINTEXT"
    assert config.delete_delay_ms == 60_000
    assert config.zookeeper.session_timeout_ms == config.zookeeper.connection_timeout_ms == 18_000
    assert config.journal is None


def test_several_listeners(tmp_path: Path) -> None:
    text = MINIMAL + (
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT\n"
        "listeners=INSIDE://[::1]:9092,OUTSIDE://0.0.0.0:0\n"
        "advertised.listeners=inside://[::1]:9092,OUTSIDE://kafka.example:9094\ninter.broker.listener.name=INSIDE\n"
        "log.segment.delete.delay.ms=5\n"
    )
    config = load(text, tmp_path)
    assert [endpoint.host for endpoint in config.listeners] == ["::1", "0.0.0.0"]
    assert config.advertised_listeners[1] == Endpoint("OUTSIDE", "kafka.example", 9094)
    assert config.inter_broker_listener == "INSIDE"
    assert config.delete_delay_ms == 5


def test_fallback_names(tmp_path: Path) -> None:
    text = MINIMAL.replace("log.dirs", "log.dir").replace("broker.id", "node.id") + "file.delete.delay.ms=9\n"
    config = load(text, tmp_path)
    assert (config.log_dirs, config.broker_id, config.delete_delay_ms) == ((Path("/var/lib/lethe"),), 3, 9)


def test_a_controller(tmp_path: Path) -> None:
    path = tmp_path / "controller.properties"
    path.write_text(
        "broker.id=1001\nzookeeper.connect=a,b:2182/chroot\ninter.broker.protocol.version=2.8\n"
        "delete.topic.enable=false\nlethe.journal.dir=/tmp/j\n"
    )
    config = load_controller_config(path, {})
    assert config.controller_id == 1001
    assert str(config.inter_broker_protocol) == "2.8-IV1"
    assert not config.delete_topic_enable
    assert config.journal is not None
    assert config.journal.directory == Path("/tmp/j")


def controller_problems(text: str, tmp_path: Path, environ: dict[str, str] | None = None) -> list[str]:
    path = tmp_path / "controller.properties"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_controller_config(path, environ or {})
    return [str(problem) for problem in raised.value.problems]


def test_a_journal_that_goes_into_a_topic(tmp_path: Path) -> None:
    path = tmp_path / "controller.properties"
    base = "broker.id=1\nzookeeper.connect=a\n"
    path.write_text(base)
    assert load_controller_config(path, {}).journal_topic is None
    path.write_text(base + "lethe.journal.kafka.bootstrap.servers=kafka-1:9092, [::1]:9093\n")
    found = load_controller_config(path, {}).journal_topic
    assert found is not None
    assert (found.servers, found.topic) == (("kafka-1:9092", "[::1]:9093"), "__lethe_journal")
    assert found.reach.choice.spoken == (SecurityProtocol.PLAINTEXT,)
    config = load(MINIMAL + "lethe.journal.kafka.bootstrap.servers=k:1\nlethe.journal.kafka.topic=facts\n", tmp_path)
    assert config.journal_topic is not None
    assert (config.journal_topic.servers, config.journal_topic.topic) == (("k:1",), "facts")


def test_the_journal_connects_as_a_client_of_its_own(tmp_path: Path) -> None:
    entry = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="j" password="hidden";'
    text = (
        "lethe.journal.kafka.bootstrap.servers=k:1\nlethe.journal.kafka.security.protocol=SASL_SSL\n"
        "lethe.journal.kafka.sasl.mechanism=SCRAM-SHA-512\nlethe.journal.kafka.ssl.endpoint.identification.algorithm=\n"
    )
    found = load(f"{MINIMAL}{text}lethe.journal.kafka.sasl.jaas.config={entry}", tmp_path)
    assert found.warnings == ()
    assert found.journal_topic is not None
    (security,) = found.journal_topic.reach.security.values()
    assert security.protocol is SecurityProtocol.SASL_SSL
    assert not security.endpoint_identification
    assert security.login is not None
    assert security.login.identity == "user j"
    assert found.reach == PLAINTEXT_REACH
    (problem,) = problems(f"{MINIMAL}{text}sasl.jaas.config={entry}", tmp_path)
    assert "lethe.journal.kafka.sasl.jaas.config: is missing: SCRAM-SHA-512 needs user and password" in problem


@pytest.mark.parametrize(
    "lines, words",
    [
        ("lethe.journal.kafka.bootstrap.servers=SSL://kafka:1", "is a listener of SSL, and the configured security"),
        ("lethe.journal.kafka.bootstrap.servers=kafka", "'kafka' is no host:port"),
        ("lethe.journal.kafka.bootstrap.servers=kafka:70000", "'kafka:70000' is no host:port"),
        ("lethe.journal.kafka.bootstrap.servers=k:1\nlethe.journal.kafka.topic=a b", "choose another name"),
    ],
)
def test_a_journal_topic_that_cannot_be(lines: str, words: str, tmp_path: Path) -> None:
    (problem,) = controller_problems(f"broker.id=1\nzookeeper.connect=a\n{lines}\n", tmp_path)
    assert words in problem


def test_without_a_client_there_is_no_journal_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_common, "CLIENT_PACKAGE", "nobody_has_this")
    text = "broker.id=1\nzookeeper.connect=a\nlethe.journal.kafka.bootstrap.servers=k:1\n"
    (problem,) = controller_problems(text, tmp_path)
    assert "the package nobody_has_this is not installed" in problem
    assert "pip install aiokafka" in problem


@pytest.mark.parametrize(
    "version,words",
    [
        ("4.0", "is not a version of a Kafka in ZooKeeper mode; write the one that the brokers have"),
        ("2.1-IV2", "is older than Lethe speaks, which is 2.2 to 3.9; raise it at the brokers"),
        ("2.1.1", "is older than Lethe speaks"),
        ("0.11.0", "is older than Lethe speaks"),
    ],
)
def test_a_controller_of_a_protocol_that_lethe_does_not_speak(version: str, words: str, tmp_path: Path) -> None:
    line = f"inter.broker.protocol.version={version}"
    (problem,) = controller_problems(f"broker.id=1\nzookeeper.connect=a\n{line}\n", tmp_path)
    assert f"controller.properties:3: inter.broker.protocol.version='{version}': {words}" in problem


@pytest.mark.parametrize("version", ["2.2", "2.2-IV0", "3.9"])
def test_a_controller_of_the_oldest_and_the_latest_protocol(version: str, tmp_path: Path) -> None:
    path = tmp_path / "controller.properties"
    path.write_text(f"broker.id=1\nzookeeper.connect=a\ninter.broker.protocol.version={version}\n")
    assert str(load_controller_config(path, {}).inter_broker_protocol).startswith(version)


def test_a_wrong_protocol_is_told_beside_all_other_mistakes(tmp_path: Path) -> None:
    text = "broker.id=x\ninter.broker.protocol.version=2.0\nrequest.timeout.ms=0\ndelete.topic.enable=maybe\n"
    text += "inter.broker.listener.name=A\nsecurity.inter.broker.protocol=SSL\n"
    named = {problem.split(": ")[1].partition("=")[0] for problem in controller_problems(text, tmp_path)}
    assert named == {
        "broker.id",
        "zookeeper.connect",
        "inter.broker.protocol.version",
        "request.timeout.ms",
        "delete.topic.enable",
        "inter.broker.listener.name",
    }


def test_the_listener_between_brokers_is_named_in_one_way(tmp_path: Path) -> None:
    both = "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT\n"
    (problem,) = problems(MINIMAL + both, tmp_path)
    assert "server.properties:4: inter.broker.listener.name='PLAINTEXT': stands beside" in problem
    assert "server.properties:5); give one of the two" in problem
    (problem,) = controller_problems("broker.id=1\nzookeeper.connect=a\n" + both, tmp_path)
    assert "controller.properties:4); give one of the two" in problem
    environ = {"KAFKA_SECURITY_INTER_BROKER_PROTOCOL": "PLAINTEXT"}
    (problem,) = problems(MINIMAL + both.splitlines()[0], tmp_path, environ)
    assert "environment variable KAFKA_SECURITY_INTER_BROKER_PROTOCOL" in problem
    assert load(MINIMAL + both.splitlines()[1], tmp_path).inter_broker_listener == "PLAINTEXT"


@pytest.mark.parametrize("schema", [BROKER_SCHEMA, CONTROLLER_SCHEMA])
def test_every_property_says_what_it_means(schema: dict[str, object]) -> None:
    for prop in schema.values():
        assert prop.doc.endswith("."), prop  # type: ignore[attr-defined]


def test_a_link_does_not_hide_that_one_log_directory_holds_another(tmp_path: Path) -> None:
    (tmp_path / "all" / "part-0").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "all" / "part-0")
    kept = "".join(text + "\n" for text in MINIMAL.splitlines() if not text.startswith("log.dirs="))
    (problem,) = problems(f"{kept}log.dirs={tmp_path}/all,{tmp_path}/link\n", tmp_path)
    assert f"{tmp_path}/link lies inside {tmp_path}/all" in problem


def test_a_misspelt_name_is_shown_with_what_it_leaves_missing(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(MINIMAL.replace("zookeeper.connect", "zookeper.connect"))
    with pytest.raises(ConfigError, match=r"zookeeper\.connect: is missing[^\0]*did you mean zookeeper\.connect"):
        load_broker_config(file, {})


# --- a controller's listeners -------------------------------------------------------------------------------------

CONTROLLER = "broker.id=1001\nzookeeper.connect=localhost:2181\n"


def test_a_controller_without_listeners_is_a_guest(tmp_path: Path) -> None:
    config = load_controller(CONTROLLER, tmp_path)
    assert (config.listeners, config.advertised_listeners) == ((), ())


def test_a_controller_with_listeners(tmp_path: Path) -> None:
    config = load_controller(CONTROLLER + "listeners=PLAINTEXT://:9094\n", tmp_path)
    assert config.listeners == config.advertised_listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9094),)
    config = load_controller(
        CONTROLLER + "listeners=A://0.0.0.0:0\nadvertised.listeners=A://one.example:0\n"
        "listener.security.protocol.map=A:PLAINTEXT\ncontrol.plane.listener.name=a\n",
        tmp_path,
    )
    assert config.listeners == (Endpoint("A", "0.0.0.0", 0),)
    bound = (Endpoint("A", "0.0.0.0", 40_001),)
    assert with_ports(config.advertised_listeners, bound) == (Endpoint("A", "one.example", 40_001),)


@pytest.mark.parametrize(
    "lines,expected",
    [
        ("advertised.listeners=PLAINTEXT://h:9094", "stands without listeners"),
        (
            "listeners=SSL://:9094\ninter.broker.listener.name=SSL",
            "ssl.keystore.location: is missing: a listener with TLS shows a certificate",
        ),
        ("listeners=PLAINTEXT://0.0.0.0:9094", "no address that others can connect to"),
        ("listeners=PLAINTEXT://:9094\ninter.broker.listener.name=INSIDE", "look for the controller under INSIDE"),
        ("listeners=PLAINTEXT://:9094\ncontrol.plane.listener.name=CONTROL", "look for the controller under CONTROL"),
    ],
)
def test_mistakes_in_a_controllers_listeners(lines: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_controller(CONTROLLER + lines + "\n", tmp_path)
    (problem,) = map(str, raised.value.problems)
    assert expected in problem


def load_controller(text: str, tmp_path: Path) -> ControllerConfig:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return load_controller_config(path, {})
