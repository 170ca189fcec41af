"""Properties of a daemon's HTTP server: address, host names, token, certificate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from lethe.adapters.config_listeners import listener_hosts
from lethe.adapters.http_access import HttpAccess, TokenScope
from lethe.adapters.http_hosts import is_loopback
from lethe.adapters.http_token import BearerTokens, TokenUnusable, read_tokens
from lethe.adapters.properties import Property, PropertyKind, Values
from lethe.adapters.security.config import opened, read_tls
from lethe.adapters.security.config_exposure import warn_of_exposure
from lethe.adapters.security.config_names import TLS
from lethe.adapters.security.refusal_counts import OF_HTTPS, OF_TOKENS, RefusalCounts
from lethe.adapters.security.tls import TlsMaterial

PREFIX: Final = "lethe.http."
KEYSTORE: Final = "ssl.keystore.location"
_OF_CLIENTS: Final = ("ssl.protocol", "ssl.endpoint.identification.algorithm")
"""Kafka's properties that only concern connections to others."""

HTTP: Final = (
    Property(
        "lethe.http.host",
        PropertyKind.TEXT,
        "127.0.0.1",
        "Address of the HTTP server with /metrics, /healthz and /readyz, and a controller's board. It changes "
        "nothing, but tells topic names: where others can reach it, set `lethe.http.token.file`.",
    ),
    Property(
        "lethe.http.port",
        PropertyKind.INTEGER,
        "0",
        "Port of the HTTP server; 0 takes any free one, which the log names.",
        minimum=0,
        maximum=65535,
    ),
    Property(
        "lethe.http.allowed.hosts",
        PropertyKind.LIST,
        "",
        "Names under which the HTTP server may be asked, besides addresses, `localhost`, names without a dot, this "
        "machine's name, hosts of `advertised.listeners`, and names in the search domains of `/etc/resolv.conf`. "
        "Others are refused, because a foreign web page may have sent the request.",
    ),
    Property(
        "lethe.http.token.file",
        PropertyKind.TEXT,
        None,
        "File with a token for the HTTP server, as `openssl rand -hex 32` makes it; requests need it in the header "
        "`Authorization: Bearer`. Each line is a token, so that an old one and a new one can be valid together. The "
        "file is read again when it changes; while it cannot be read no token is accepted. A warning names a file that "
        "every user of the machine may read or write. /healthz and /readyz need none, and then tell no reasons. "
        "Without this file nothing can be changed through HTTP.",
    ),
    Property(
        "lethe.http.token.for",
        PropertyKind.TEXT,
        TokenScope.ALL.value,
        "What the token is needed for: `all` that tells something about the cluster or changes it (the board's data, "
        "/state, /explain, /metrics), or `changes` only.",
        choices=tuple(scope.value for scope in TokenScope),
    ),
    Property(
        f"{PREFIX}{KEYSTORE}",
        PropertyKind.TEXT,
        None,
        "File with the private key and the certificates that the HTTP server shows; with it the server speaks TLS, and "
        "only TLS. It is read again when it changes. As all of `lethe.http.ssl.…` it means what Kafka's property of "
        "that name means, and those of `ssl.…` do not count for HTTP.",
    ),
    *(
        replace(each, name=f"{PREFIX}{each.name}", doc=f"As `{each.name}`, for HTTP.")
        for each in TLS
        if each.name not in (KEYSTORE, *_OF_CLIENTS)
    ),
)


@dataclass(frozen=True, slots=True)
class HttpConfig:
    host: str
    port: int
    """0: any free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that requests may use, besides those that `adapters.http_hosts` allows."""
    token_file: Path | None = None
    token_scope: TokenScope = TokenScope.ALL
    tls: TlsMaterial | None = field(default=None, compare=False)
    """None: plain HTTP."""
    refused: RefusalCounts = field(default_factory=RefusalCounts, compare=False)

    def access(self) -> HttpAccess:
        """Return what decides which requests need the token."""
        token = None if self.token_file is None else BearerTokens(self.token_file)
        return HttpAccess(token, self.token_scope, refused=self.refused)


def read_http(values: Values) -> HttpConfig:
    """Return the HTTP server's settings; note problems, and warn about pages that others can read."""
    host, hosts = values.text("lethe.http.host") or "127.0.0.1", values.items("lethe.http.allowed.hosts")
    advertised = listener_hosts(values.items("advertised.listeners") or values.items("listeners"))
    scope = TokenScope(values.text("lethe.http.token.for") or TokenScope.ALL)
    port, token_file, tls = values.integer("lethe.http.port"), _token_file(values), _tls(values)
    refused = RefusalCounts(*(OF_TOKENS if token_file is not None else ()), *(OF_HTTPS if tls is not None else ()))
    config = HttpConfig(host, port, (*hosts, *advertised), token_file, scope, tls, refused)
    if not is_loopback(host):
        values.warnings += exposures(config, values.origin("lethe.http.host"))
    return config


def exposures(config: HttpConfig, origin: str) -> list[str]:
    """Return what others can read or overhear on an address that is not loopback, with the remedy."""
    where = f"{origin}: lethe.http.host={config.host} is not loopback, and"
    if config.token_file is None:
        reads = "whoever reaches the port reads topic names, brokers and errors"
        remedy = "set lethe.http.token.file, or let only Prometheus and operators reach the port"
        return [f"{where} HTTP asks for no token: {reads}; {remedy}"]
    if config.tls is None:
        remedy = f"set {PREFIX}{KEYSTORE}, or let only a proxy with TLS reach the port"
        return [f"{where} the token travels unencrypted: whoever listens on the way can use it; {remedy}"]
    return []


def _tls(values: Values) -> TlsMaterial | None:
    settings = read_tls(values, PREFIX)
    return None if settings is None else opened(values, settings, serves=True)


def _token_file(values: Values) -> Path | None:
    name = "lethe.http.token.file"
    given = values.text(name)
    if given is None:
        if values.setting("lethe.http.token.for") is not None:
            values.wrong("lethe.http.token.for", "has no token to be for", f"set {name} too, or remove the line")
        return None
    try:
        read_tokens(Path(given))
    except TokenUnusable as unusable:
        values.wrong(name, unusable.reason, unusable.remedy)
    warn_of_exposure(values, name, values.origin(name), Path(given))
    return Path(given)
