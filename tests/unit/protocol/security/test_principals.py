from __future__ import annotations

from base64 import b64decode

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
from tests.authorizer.names import element

CERTIFICATE = b64decode(
    "MIIBxDCCAWugAwIBAgIUCAd3hBIEeFBG1dcCWy5v1bDTylQwCgYIKoZIzj0EAwIwETEPMA0GA1UEAwwGVGhlIENBMB4XDTI2MTEyNjAyNDMw"
    "NVoXDTI2MTEyOTAyNDMwNVowZTELMAkGA1UEBhMCREUxEzARBgNVBAoMCkFjbWUsIEluYy4xHTAKBgNVBAsMA09wczAPBgoJkiaJk/IsZAEB"
    "DAE3MRQwEgYJKoZIhvcNAQkBFgVhQGIuYzEMMAoGA1UEAwwDQW5uMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAESBAZJWoxq0c0xR9zOHuF"
    "qSNlCmpitH9fBHMK593yh1r9NM3wM9o+1/3158NRNPb11UiAlG3/n4Qg4bPV86/z4qNNMEswCQYDVR0TBAIwADAdBgNVHQ4EFgQUnZqqejLO"
    "gUuMEc2vhkuHdKQYfS8wHwYDVR0jBBgwFoAU1/4A5QIMAUlCgTobFxRGkXb48PkwCgYIKoZIzj0EAwIDRwAwRAIgJJwJvoB6yYpU4rXhu4wZ"
    "vJb0372DOyYbBnU298VIYcsCIAIAkH36JnfdUMErTfpapRV9076z5MkHwajEAZgICCYc"
)
"""Made by openssl for `/C=DE/O=Acme, Inc./OU=Ops+UID=7/emailAddress=a@b.c/CN=Ann`, by `/CN=The CA`."""


def test_a_client_without_a_certificate_is_anonymous() -> None:
    assert str(certificate_principal(None)) == "User:ANONYMOUS"
    assert certificate_principal(None) == ANONYMOUS


def test_a_certificate_gives_its_subject_as_java_writes_it() -> None:
    principal = certificate_principal(CERTIFICATE)
    assert str(principal) == "User:CN=Ann,1.2.840.113549.1.9.1=#16056140622e63,OU=Ops+UID=7,O=Acme\\, Inc.,C=DE"


def test_a_certificate_of_the_first_version_has_no_version_before_its_subject() -> None:
    of_version_3 = bytes.fromhex("a003020102")
    start, end = CERTIFICATE.index(of_version_3) + len(of_version_3), CERTIFICATE.index(b"Ann") + len(b"Ann")
    first = element(0x30, element(0x30, CERTIFICATE[start:end]))
    assert certificate_principal(first) == certificate_principal(CERTIFICATE)


def test_rules_shorten_the_name_of_a_certificate() -> None:
    rules = PrincipalMapping.parse("RULE:^CN=(.*?),.*OU=(.*?)\\+.*$/$1@$2/L, DEFAULT")
    assert certificate_principal(CERTIFICATE, rules) == Principal("User", "ann@ops")


def test_a_certificate_to_which_no_rule_applies_is_refused_with_the_remedy() -> None:
    rules = PrincipalMapping.parse("RULE:^CN=nobody$/x/")
    with pytest.raises(PrincipalRefused, match=r"no rule of ssl\.principal\.mapping\.rules='RULE.*CN=Ann.*DEFAULT"):
        certificate_principal(CERTIFICATE, rules)


@pytest.mark.parametrize("size", [0, 1, 2, 40, 120])
def test_half_a_certificate_is_refused(size: int) -> None:
    with pytest.raises(PrincipalRefused, match="the subject of the client's certificate cannot be read"):
        certificate_principal(CERTIFICATE[:size])


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
def test_super_users_that_kafka_refuses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no principal: write its type before a colon"):
        parse_super_users(text)
