"""IANA's names of cipher suites, and what the ssl module can do with a choice of them."""

from __future__ import annotations

import ssl
import subprocess

import pytest

from lethe.adapters.security.ciphers import OPENSSL_NAMES, TLS13, choose_suites
from lethe.adapters.security.unusable import Unusable

AES256, AES128 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
NUMBERS = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": 0x002F,
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA": 0x0039,
    "TLS_RSA_WITH_AES_128_GCM_SHA256": 0x009C,
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": 0xC009,
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": 0xC028,
    AES128: 0xC02F,
    AES256: 0xC030,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": 0xCCA9,
}
"""From IANA's registry."""


@pytest.mark.parametrize("name", OPENSSL_NAMES)
def test_every_suite_of_the_table_can_be_set_alone(name: str) -> None:
    chosen = choose_suites([name])
    assert (chosen.tls12, chosen.tls13) == ((OPENSSL_NAMES[name],), False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(":".join(chosen.tls12))
    (suite,) = [suite for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"]
    assert suite["name"] == OPENSSL_NAMES[name]
    if name in NUMBERS:
        assert suite["id"] & 0xFFFF == NUMBERS[name]


def test_the_table_says_what_openssl_says() -> None:
    try:
        listed = subprocess.run(
            ["openssl", "ciphers", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("there is no openssl that pairs the names")
    pairs = {(words[0], words[2]) for words in map(str.split, listed.splitlines())}
    assert set(OPENSSL_NAMES.items()) <= pairs
    assert {(name, name) for name in TLS13} <= pairs


def test_both_versions() -> None:
    assert choose_suites([AES256, *sorted(TLS13), AES128]) == (
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"),
        True,
    )
    assert choose_suites(TLS13) == ((), True)


def test_javas_signal_is_no_suite() -> None:
    assert choose_suites(["TLS_EMPTY_RENEGOTIATION_INFO_SCSV", AES128]).tls12 == ("ECDHE-RSA-AES128-GCM-SHA256",)


@pytest.mark.parametrize(
    "names,message",
    [
        (
            ["TLS_AES_256_GCM_SHA384"],
            "without TLS_AES_128_GCM_SHA256 and TLS_CHACHA20_POLY1305_SHA256, and Python's ssl",
        ),
        (
            ["ECDHE-RSA-AES256-GCM-SHA384"],
            "is no suite that OpenSSL and Java have in common; use IANA's names, such as TLS_",
        ),
        (["SSL_RSA_WITH_3DES_EDE_CBC_SHA"], "is no suite that OpenSSL and Java have in common"),
        ([], "names no cipher suite; name one, or remove the line"),
        (["TLS_EMPTY_RENEGOTIATION_INFO_SCSV"], "names no cipher suite"),
    ],
)
def test_what_cannot_be_had_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(Unusable) as raised:
        choose_suites(names)
    assert message in str(raised.value)
