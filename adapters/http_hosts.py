"""Host names that HTTP requests may use, so that an attacker's web page cannot read a daemon's state.

Theory of operation. A page of evil.example may let its name resolve to 127.0.0.1 after it was loaded (DNS rebinding).
The browser then sends requests of that page to the daemon, with `Host: evil.example`. The attack needs a name that the
attacker controls in public DNS. Names that an attacker cannot own there are allowed without
configuration:

    Host header                    allowed because
    10.0.3.7:8080, [::1]:8080      an address is no name: Prometheus by pod IP, probes of Kubernetes
    localhost                      it never leaves the machine
    broker-1:8080                  no dot: a name of a container or a service
    kafka-1.corp.example.com       this machine's name, or a name in a search domain of /etc/resolv.conf
    b.kafka.svc.cluster.local      the same in Kubernetes, which sets search domains
    lethe.example.com              `lethe.http.allowed.hosts`, or `advertised.listeners`
    (none)                         browsers always send it
    evil.example                   refused
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

RESOLVER: Final = Path("/etc/resolv.conf")
_IPV6: Final = 6


class AllowedHosts:
    """Allowed names of one server."""

    def __init__(self, names: Iterable[str] = (), search_domains: Iterable[str] = ()) -> None:
        self._names = frozenset(map(_plain, names))
        # A domain of one label is a top-level domain, in which anyone may own a name.
        self._domains = tuple("." + _plain(domain) for domain in search_domains if "." in domain.strip("."))

    @classmethod
    def of_this_machine(cls, names: Iterable[str]) -> AllowedHosts:
        """Include this machine's name and search domains, without a DNS query."""
        return cls((*names, socket.gethostname()), search_domains_of(RESOLVER))

    def allow(self, header: str | None) -> bool:
        """Return whether a request with this Host header is allowed."""
        if not header:
            return True
        host = _plain(_without_port(header))
        if _is_address(host) or not set(host) & set(".[]") or host.endswith(".localhost"):
            return True
        return host in self._names or host.endswith(self._domains)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address; no name is looked up."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def search_domains_of(file: Path) -> tuple[str, ...]:
    """Return the domains that this machine's resolver appends to short names; none if the file cannot be read."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return ()
    words = [line.split() for line in lines]
    return tuple(domain for each in words if each and each[0] in ("search", "domain") for domain in each[1:])


def _without_port(header: str) -> str:
    if header.startswith("["):
        address, bracket, port = header[1:].partition("]")
        return address if bracket and (not port or (port[0] == ":" and port[1:].isdigit())) else header
    host, colon, port = header.rpartition(":")
    return host if colon and port.isdigit() else header


def _plain(host: str) -> str:
    return host.strip().rstrip(".").lower()


def _is_address(host: str) -> bool:
    """Return whether it is an address. One of IPv6 may name a zone, which has no dot as a domain has."""
    address, _, zone = host.partition("%")
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:
        return False
    return not zone or (version == _IPV6 and "." not in zone)
