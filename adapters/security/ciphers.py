"""Cipher suites by IANA's names, which Kafka's configuration has, as OpenSSL's.

OpenSSL has two lists. Python's ssl module sets the one of TLS 1.2 suite by suite. It cannot set the one of TLS 1.3, so
all of its suites are offered, or TLS 1.3 is not:

named in ssl.cipher.suites              done
suites of TLS 1.2 only                  these, and TLS 1.3 is switched off
all three suites of TLS 1.3             TLS 1.3, and TLS 1.2 is switched off
both                                    both
some of the suites of TLS 1.3           refused
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple

from lethe.adapters.security.unusable import Unusable

TLS13: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
"""The suites of TLS 1.3 that OpenSSL offers; they have the same names everywhere."""
SIGNAL: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
"""No suite, but a signal in Java's lists; OpenSSL always sends it."""

_TABLE: Final = """
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 ECDHE-ECDSA-AES256-GCM-SHA384
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 ECDHE-RSA-AES256-GCM-SHA384
    TLS_DHE_RSA_WITH_AES_256_GCM_SHA384 DHE-RSA-AES256-GCM-SHA384
    TLS_RSA_WITH_AES_256_GCM_SHA384 AES256-GCM-SHA384
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 ECDHE-ECDSA-AES128-GCM-SHA256
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 ECDHE-RSA-AES128-GCM-SHA256
    TLS_DHE_RSA_WITH_AES_128_GCM_SHA256 DHE-RSA-AES128-GCM-SHA256
    TLS_RSA_WITH_AES_128_GCM_SHA256 AES128-GCM-SHA256
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 ECDHE-ECDSA-CHACHA20-POLY1305
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 ECDHE-RSA-CHACHA20-POLY1305
    TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256 DHE-RSA-CHACHA20-POLY1305
    TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384 ECDHE-ECDSA-AES256-SHA384
    TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384 ECDHE-RSA-AES256-SHA384
    TLS_DHE_RSA_WITH_AES_256_CBC_SHA256 DHE-RSA-AES256-SHA256
    TLS_RSA_WITH_AES_256_CBC_SHA256 AES256-SHA256
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256 ECDHE-ECDSA-AES128-SHA256
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256 ECDHE-RSA-AES128-SHA256
    TLS_DHE_RSA_WITH_AES_128_CBC_SHA256 DHE-RSA-AES128-SHA256
    TLS_RSA_WITH_AES_128_CBC_SHA256 AES128-SHA256
    TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA ECDHE-ECDSA-AES256-SHA
    TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA ECDHE-RSA-AES256-SHA
    TLS_DHE_RSA_WITH_AES_256_CBC_SHA DHE-RSA-AES256-SHA
    TLS_RSA_WITH_AES_256_CBC_SHA AES256-SHA
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA ECDHE-ECDSA-AES128-SHA
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA ECDHE-RSA-AES128-SHA
    TLS_DHE_RSA_WITH_AES_128_CBC_SHA DHE-RSA-AES128-SHA
    TLS_RSA_WITH_AES_128_CBC_SHA AES128-SHA
"""
OPENSSL_NAMES: Final = dict(line.split() for line in _TABLE.strip().splitlines())
"""Suites of TLS 1.2 that Java and OpenSSL both have, as `openssl ciphers -stdname` pairs their names."""


class Suites(NamedTuple):
    """Chosen suites."""

    tls12: tuple[str, ...]
    """OpenSSL's names, in the order given; empty if none is of TLS 1.2."""
    tls13: bool
    """Whether those of TLS 1.3 are among them."""


def choose_suites(names: Iterable[str]) -> Suites:
    """Return what OpenSSL is to offer for a list of IANA's names. Raises Unusable."""
    wanted = [name for name in dict.fromkeys(names) if name != SIGNAL]
    tls13 = [name for name in wanted if name in TLS13]
    tls12 = [_openssl_name(name) for name in wanted if name not in TLS13]
    if missing := sorted(TLS13.difference(tls13)) if tls13 else []:
        reason = (
            f"names {' and '.join(tls13)} without {' and '.join(missing)}, and Python's ssl module offers all or none"
        )
        raise Unusable(reason, "name all suites of TLS 1.3 or none of them, which switches TLS 1.3 off")
    if not wanted:
        raise Unusable("names no cipher suite", "name one, or remove the line")
    return Suites(tuple(tls12), bool(tls13))


def _openssl_name(name: str) -> str:
    found = OPENSSL_NAMES.get(name)
    if found is None:
        example = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        raise Unusable(
            f"{name!r} is no suite that OpenSSL and Java have in common", f"use IANA's names, such as {example}"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.set_ciphers(found)
    except ssl.SSLError:
        offered = False
    else:
        offered = any(suite["name"] == found for suite in context.get_ciphers())
    if not offered:
        raise Unusable(f"{name} is not in this machine's {ssl.OPENSSL_VERSION}", "remove it from the list")
    return found
