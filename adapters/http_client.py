"""Asks an HTTP server of Lethe for a JSON document, with token and CA where they are given.

A token is sent over TLS, to loopback, or to an address that the user has named, and nowhere else: other addresses come
from `/controller` in ZooKeeper, and whoever can write there, or listen on the way, must not get the token.

    address                    from         the token
    https://controller-1:8080  anywhere     is sent, once the certificate has proven the name
    http://127.0.0.1:8080      anywhere     is sent
    http://10.0.3.7:8080       the user     is sent
    http://10.0.3.7:8080       /controller  is not sent, and the problem says so
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lethe.adapters.http_hosts import is_loopback
from lethe.adapters.http_token import TokenUnusable, read_tokens
from lethe.adapters.security.exposure import exposure
from lethe.adapters.security.files import read_file
from lethe.adapters.security.handshakes import TrustRemedies, handshake_problem
from lethe.adapters.security.unusable import Unusable

logger = logging.getLogger(__name__)

TOKEN_VARIABLE: Final = "LETHE_HTTP_TOKEN_FILE"
"""The variable of the server's property, so that a command inside its container needs no other one."""
CA_VARIABLE: Final = "LETHE_HTTP_CA_FILE"
_TRUST: Final = TrustRemedies(f"name the CA that signs it (--controller-ca-file, or {CA_VARIABLE})")
_PEM_REMEDY: Final = "name a file with certificates in PEM"
_MAX_CA_BYTES: Final = 16 * 1024 * 1024
_TOKEN_REMEDY: Final = f" (--controller-token-file, or {TOKEN_VARIABLE}, names the file for commands)"


class HttpFailed(Exception):
    """There is no answer that counts; the message names the URL, the reason, and the remedy if there is one."""


class CredentialsUnusable(ValueError):
    """A file of the credentials cannot be used; the message names it, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class HttpCredentials:
    """What a client needs for servers of Lethe."""

    token_file: Path | None = None
    """Its first token is sent."""
    ca_file: Path | None = None
    """Certificates (PEM) that sign the servers'; None: those of the system."""

    @classmethod
    def from_environment(cls, token_file: Path | None = None, ca_file: Path | None = None) -> HttpCredentials:
        """Return these files, or else those that the environment names."""
        return cls(token_file or _path_in(TOKEN_VARIABLE), ca_file or _path_in(CA_VARIABLE))

    def check(self) -> None:
        """Read the files, and warn of a token that is exposed. Raises CredentialsUnusable."""
        self.token()
        self.authorities()
        if self.token_file is not None and (found := exposure(self.token_file)) is not None:
            logger.warning("token file %s: %s", self.token_file, found)

    def token(self) -> str | None:
        """Return the token to send; None: none. Raises CredentialsUnusable."""
        try:
            return None if self.token_file is None else read_tokens(self.token_file)[0]
        except TokenUnusable as unusable:
            raise CredentialsUnusable(str(unusable)) from unusable

    def authorities(self) -> ssl.SSLContext | None:
        """Return the context that trusts the CA file; None without one. Raises CredentialsUnusable."""
        if self.ca_file is None:
            return None
        from lethe.adapters.security import pem

        try:
            text = read_file(self.ca_file, _MAX_CA_BYTES).decode("latin-1")
            if not pem.read_certificates(text):
                raise Unusable("holds no certificate", _PEM_REMEDY)
            return ssl.create_default_context(cafile=self.ca_file)
        except Unusable as error:
            raise CredentialsUnusable(f"CA file {self.ca_file}: {error}") from error
        except (OSError, ssl.SSLError, pem.PemProblem) as error:
            raise CredentialsUnusable(f"CA file {self.ca_file}: {error}; {_PEM_REMEDY}") from error


def _path_in(variable: str) -> Path | None:
    value = os.environ.get(variable, "").strip()
    return Path(value) if value else None


async def get_json(
    url: str,
    credentials: HttpCredentials,
    timeout_ms: int,
    *,
    accepted: Collection[int] = (200,),
    named_by_user: bool = False,
) -> Mapping[str, Any]:
    """Return the JSON object at this URL. Raises HttpFailed."""
    import aiohttp

    try:
        headers = _headers(url, credentials, named_by_user)
        is_tls = urlsplit(url).scheme == "https"
        authorities = (credentials.authorities() if is_tls else None) or True
    except CredentialsUnusable as unusable:
        raise HttpFailed(f"{url} is not asked: {unusable}") from unusable
    timeout = aiohttp.ClientTimeout(total=timeout_ms / 1000)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            # A redirect could lead the token elsewhere; no server of Lethe sends one.
            session.get(url, headers=headers, ssl=authorities, allow_redirects=False) as response,
        ):
            status = response.status
            document = await response.json()
    except TimeoutError as error:
        raise HttpFailed(f"{url} did not answer within {timeout_ms} ms") from error
    except aiohttp.ClientConnectorCertificateError as error:
        raise HttpFailed(_untrusted(url, error.certificate_error)) from error
    except aiohttp.ClientSSLError as error:
        raise HttpFailed(f"{url} cannot be asked over TLS: {error}; is it a server of plain HTTP?") from error
    except (aiohttp.ClientError, ValueError, OSError) as error:
        raise HttpFailed(f"{url} cannot be asked: {error}") from error
    if status not in accepted:
        said = document.get("error") if isinstance(document, Mapping) else None
        why = f": {said}" if said else ", without a reason"
        raise HttpFailed(f"{url} answered {status}{why}{_TOKEN_REMEDY if status == 401 else ''}")
    if not isinstance(document, Mapping):
        raise HttpFailed(f"{url} answered something else than was asked")
    return document


def _headers(url: str, credentials: HttpCredentials, named_by_user: bool) -> dict[str, str]:
    if credentials.token_file is None:
        return {}
    parts = urlsplit(url)
    if parts.scheme != "https" and not named_by_user and not is_loopback(parts.hostname or ""):
        raise HttpFailed(
            f"{url} is not asked, because it would get the token unencrypted: give the controller a certificate "
            "(lethe.http.ssl.keystore.location), or name its address yourself (--controller-url)"
        )
    return {"Authorization": f"Bearer {credentials.token()}"}


def _untrusted(url: str, error: Exception) -> str:
    assert isinstance(error, ssl.SSLCertVerificationError)
    return handshake_problem(error, f"{url} is not trusted", urlsplit(url).hostname, trust=_TRUST)
