"""JAAS texts: what Kafka's documentation shows, and what Java would read otherwise than a person."""

import pytest

from lethe.protocol.security.jaas import JaasEntry, JaasError, parse_config, parse_file

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

FILE = """
// listeners
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin"
    password="admin-secret"
    user_admin="admin-secret"
    user_alice="alice-secret";
};
/* ZooKeeper
   with digest */
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule REQUIRED username="kafka" password="a;b{c}=/*d";
};
sasl_ssl.KafkaServer {
    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/k.keytab" storeKey=true;
    org.apache.kafka.common.security.scram.ScramLoginModule optional;
};
"""


def test_the_value_that_kafka_documents() -> None:
    entry = parse_config(f"{SCRAM} required \\\n".replace("\\", "") + '  username="alice" \n  password="alice-secret";')
    assert entry == JaasEntry(SCRAM, "required", {"username": "alice", "password": "alice-secret"})
    assert (entry.module_name, entry.option("username")) == ("ScramLoginModule", "alice")


@pytest.mark.parametrize(
    "written, value",
    [
        ('"a b"', "a b"),
        ("'a b'", "a b"),
        ('"it\'s"', "it's"),
        (r'"say \"hi\""', 'say "hi"'),
        (r'"back\\slash"', "back\\slash"),
        (r'"\t\n\101\q"', "\t\nAq"),
        ('"// no comment /* here */"', "// no comment /* here */"),
        ("word-with_$igns.and.1", "word-with_$igns.and.1"),
        ("größe", "größe"),
        ('""', ""),
        ("true // a comment", "true"),
        ("/* a comment */ true", "true"),
    ],
)
def test_values_as_java_reads_them(written: str, value: str) -> None:
    assert parse_config(f"{SCRAM} required password={written}\n;").options == {"password": value}


def test_a_file_with_its_sections() -> None:
    sections = parse_file(FILE)
    assert list(sections) == ["KafkaServer", "Client", "sasl_ssl.KafkaServer"]
    assert sections["KafkaServer"][0].options["user_alice"] == "alice-secret"
    assert sections["Client"][0].option("password") == "a;b{c}=/*d"
    assert [entry.flag for entry in sections["sasl_ssl.KafkaServer"]] == ["required", "optional"]
    assert sections["sasl_ssl.KafkaServer"][0].options["keyTab"] == "/etc/k.keytab"
    assert parse_file("") == {} == parse_file(" // nothing")


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "has one login module, and this one has 0"),
        (f"{SCRAM} required; {SCRAM} required;", "has one login module, and this one has 2"),
        (f"{SCRAM}", "ends where the flag"),
        (f"{SCRAM} required", "ends with a semicolon"),
        (f'{SCRAM} required password="hunter2"', "ends with a semicolon"),
        (
            f'{SCRAM} mandatory password="hunter2";',
            "line 1: org.apache.kafka.*required, requisite, sufficient, optional",
        ),
        (f"{SCRAM} required password;", "line 1: the option password is followed by '='"),
        (f"{SCRAM} required password=;", "the option password has no value"),
        (f'{SCRAM} required\n"="="hunter2" = x;', "line 2: an option of"),
        (f'{SCRAM} required\n\npassword="hunter2;', "line 3: a text in double quotes does not end on its line"),
        (f"{SCRAM} required password=2hunter2;", "an unquoted number is no text in Java"),
        (f"{SCRAM} required password=-hunter2;", "an unquoted number is no text in Java"),
        (f"{SCRAM} required keyTab=/hunter2;", "an unquoted slash begins a comment"),
        (f"{SCRAM} required password=hunter2@x;", "a character that no word contains"),
        (f"KafkaClient {{ {SCRAM} required; }};", "the flag of the login module is expected"),
        ("hunter2", "ends where the flag of the login module is expected"),
        ("hunter2 and more", "line 1: the login module is followed by one of required, requisite"),
        ("hunter2 required", "ends where an option of the login module, or a semicolon, is expected"),
        (f"{SCRAM} required password=my hunter2;", "line 1: the name of an option is followed by '='"),
        (f'{SCRAM} required username="a" "hunter2";', "line 1: the name of an option is followed by '='"),
    ],
)
def test_a_value_that_is_none_is_refused_and_not_quoted(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as refused:
        parse_config(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "text, reason",
    [
        (f'{SCRAM} required password="hunter2";', "followed by '{'"),
        (f'Client {{ {SCRAM} required password="hunter2"; }}', "ends where ';' after the section Client"),
        (f"Client {{ {SCRAM} required; }}; Client {{ }};", "the section Client appears twice"),
        (f"Client {{ {SCRAM} required password='hunter2'; }};", "use double quotes"),
        (
            f'Client {{\n{SCRAM} required password="${{hunter2}}"; }};',
            "line 2: the option password refers to a property",
        ),
        (f"Client {{ {SCRAM} required;", "ends where"),
        ("hunter2", "ends where '{' after the name of a section is expected"),
        ("hunter2 and more", "line 1: the name of a section is followed by '{'"),
    ],
)
def test_a_file_that_is_none_is_refused_and_not_quoted(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as refused:
        parse_file(text)
    assert "hunter2" not in str(refused.value)


def test_a_missing_option_is_named() -> None:
    entry = parse_config(f'{SCRAM} required username="alice" password="";')
    for name in ("password", "token"):
        with pytest.raises(JaasError, match=f'ScramLoginModule has no {name}: add {name}="…"'):
            entry.option(name)


def test_no_representation_shows_an_option() -> None:
    assert "hunter2" not in repr(parse_config(f'{SCRAM} required password="hunter2";'))
