from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lethe.protocol.security.principal_mapping import PrincipalMapping
from lethe.protocol.security.principals import (
    ANONYMOUS,
    Principal,
    PrincipalRefused,
    certificate_principal,
    parse_principal,
    parse_super_users,
    sasl_principal,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A self-signed certificate, as openssl writes it."""
    directory: Path = tmp_path_factory.mktemp("certificate")
    der = directory / "certificate.der"
    command = (
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", str(directory / "key"), "-outform", "DER", "-out", str(der)),
        *("-subj", "/C=DE/O=Acme, Inc./OU=Ops+UID=7/emailAddress=a@b.c/CN=Ann"),
    )
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return der.read_bytes()


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert str(certificate_principal(None)) == "User:ANONYMOUS"
    assert certificate_principal(None) == ANONYMOUS


def test_a_certificate_gives_its_subject_as_java_writes_it(certificate: bytes) -> None:
    principal = certificate_principal(certificate)
    assert str(principal) == "User:CN=Ann,1.2.840.113549.1.9.1=#16056140622e63,OU=Ops+UID=7,O=Acme\\, Inc.,C=DE"


def test_rules_shorten_the_name_of_a_certificate(certificate: bytes) -> None:
    rules = PrincipalMapping.parse("RULE:^CN=(.*?),.*OU=(.*?)\\+.*$/$1@$2/L, DEFAULT")
    assert certificate_principal(certificate, rules) == Principal("User", "ann@ops")


def test_a_certificate_to_which_no_rule_applies_is_refused_with_the_remedy(certificate: bytes) -> None:
    rules = PrincipalMapping.parse("RULE:^CN=nobody$/x/")
    with pytest.raises(PrincipalRefused, match=r"no rule of ssl\.principal\.mapping\.rules='RULE.*CN=Ann.*DEFAULT"):
        certificate_principal(certificate, rules)


@pytest.mark.parametrize("size", [0, 1, 2, 40, 120])
def test_half_a_certificate_is_refused(certificate: bytes, size: int) -> None:
    with pytest.raises(PrincipalRefused, match="the subject of the client's certificate cannot be read"):
        certificate_principal(certificate[:size])


def test_the_type_of_a_principal_ends_with_the_first_colon() -> None:
    assert parse_principal("User:a:b") == Principal("User", "a:b")
    assert parse_principal("User:") == Principal("User", "")
    assert parse_principal("user:ann") != parse_principal("User:ann")
    assert sasl_principal("a:b") == Principal("User", "a:b")


@pytest.mark.parametrize("text", ["", "ann"])
def test_a_principal_without_a_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write its type before a colon"):
        parse_principal(text)


def test_super_users_are_separated_by_semicolons() -> None:
    found = parse_super_users(" User:a ;User:CN=b, c,O=d;;")
    assert found == {Principal("User", "a"), Principal("User", "CN=b, c,O=d")}
    assert parse_super_users("") == parse_super_users(";") == frozenset()


@pytest.mark.parametrize("text", ["User:a;;User:b", "User:a,b;c", " "])
def test_super_users_that_kafka_refuses_are_refused_with_the_property(text: str) -> None:
    with pytest.raises(ValueError, match=r"super\.users=.*separate principals by semicolons"):
        parse_super_users(text)
