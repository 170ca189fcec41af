"""Kafka's properties for a SASL login, as a login.

    read_login_between_brokers(values, "INTERNAL")   what brokers have for the connections among themselves
    read_client_login(values)                        what clients have, such as Kafka's own commands

Where user and password stand, first match counts, as in Kafka:

    between brokers   listener.name.internal.scram-sha-512.sasl.jaas.config
                      section internal.KafkaServer, then KafkaServer, of the JAAS file
                      sasl.jaas.config (Kafka's brokers ignore it; a controller has no other logins)
    client            sasl.jaas.config, then section KafkaClient of the JAAS file

Files are read once to check them, and again at each login. Problems are noted in `values`; no text shows a secret.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from lethe.adapters.properties import Problem, Property, Values
from lethe.adapters.security.config_names_sasl import (
    CLIENT_MECHANISM,
    INTER_BROKER_MECHANISM,
    JAAS_CONFIG,
    TOKEN_COMMAND,
    TOKEN_URL,
)
from lethe.adapters.security.jaas_file import JAAS_FILE, read_sections
from lethe.adapters.security.login import MODULES, Credentials, LoginUnusable, SaslLogin, check_mechanism
from lethe.adapters.security.prefixed import (
    Given,
    Place,
    PlacedSecret,
    PrefixedValues,
    listener_prefix,
    mechanism_prefix,
)
from lethe.adapters.security.tokens import TokenCommand, TokenFile, TokenSource
from lethe.adapters.security.unusable import Unusable
from lethe.protocol.security.jaas import CLIENT_SECTION, SERVER_SECTION, JaasEntry, JaasError, parse_config
from lethe.protocol.security.oauthbearer import OAUTHBEARER
from lethe.protocol.security.plain import PLAIN


class JaasSource(NamedTuple):
    """A login module, and the property that gives it."""

    place: Place
    path: Path | None
    """The file that it is read from at each login."""
    read: Callable[[], JaasEntry]
    """Returns it as of now. Raises Unusable and JaasError, which show no secret."""

    def problem(self, reason: str, remedy: str) -> Problem:
        """Return a problem with it."""
        shown = None if self.path is None else str(self.path)
        return Problem(self.place.name, self.place.origin, shown, reason, remedy)

    def unusable(self, error: Exception) -> LoginUnusable:
        """Return an error of `read` with the property and the file."""
        file = "" if self.path is None else f"={self.path}"
        return LoginUnusable(f"{self.place.name}{file}: {error}")

    def read_placed(self) -> JaasEntry:
        """Return it as of now. Raises LoginUnusable that names the property and the file."""
        try:
            return self.read()
        except (Unusable, JaasError) as error:
            raise self.unusable(error) from None


@dataclasses.dataclass(frozen=True, slots=True)
class _Context:
    """Where the login of one kind of connection is looked for."""

    mechanism: Property
    prefix: str
    """Of the properties of this kind of connection."""
    own: str
    """Prefix of the `sasl.jaas.config` that has precedence."""
    sections: tuple[str, ...]
    """Of the JAAS file."""
    last: str | None
    """Prefix of the `sasl.jaas.config` that comes after the file; None: there is none."""
    token_prefixes: tuple[str, ...]


def read_login_between_brokers(values: Values, listener: str) -> SaslLogin | None:
    """Return the login for connections to this listener of brokers; None if a problem was noted."""
    mechanism = PrefixedValues(values, ("",)).text(INTER_BROKER_MECHANISM)
    own = mechanism_prefix(listener, mechanism)
    token_prefixes = (own, listener_prefix(listener), "")
    return _read(values, _Context(INTER_BROKER_MECHANISM, "", own, _sections(listener), "", token_prefixes))


def read_client_login(values: Values, prefix: str = "") -> SaslLogin | None:
    """Return the login of a client whose properties have the prefix; None if a problem was noted."""
    return _read(values, _Context(CLIENT_MECHANISM, prefix, prefix, (CLIENT_SECTION,), None, (prefix, "")))


def read_listener_entry(values: Values, listener: str, mechanism: str) -> JaasSource | None:
    """Return the login module of a listener's mechanism, as Kafka's brokers have it for their clients.

    None if there is none, or if a problem was noted.
    """
    own = PrefixedValues(values, (mechanism_prefix(listener, mechanism),)).secret(JAAS_CONFIG)
    if own is not None:
        return _in_property(own)
    return _in_file(values, _sections(listener), mechanism)


def _read(values: Values, context: _Context) -> SaslLogin | None:
    mechanism = PrefixedValues(values, (context.prefix,)).text(context.mechanism)
    noted = len(values.problems)
    try:
        check_mechanism(mechanism)
    except Unusable as error:
        _refuse_mechanism(values, context, mechanism, error)
        return None
    source = _token_source(values, context) if mechanism == OAUTHBEARER else None
    entry = _entry(values, context, mechanism)
    if len(values.problems) > noted:
        return None
    if entry is None and source is not None:
        return SaslLogin.oauthbearer(source)
    if entry is None:
        _missing(values, context.own + JAAS_CONFIG, f"{mechanism} needs user and password", _example(mechanism))
        return None
    try:
        return _login(mechanism, entry, source)
    except (Unusable, LoginUnusable, JaasError) as error:
        values.problems.append(entry.problem(str(error), _example(mechanism)))
        return None


def _example(mechanism: str) -> str:
    package = {PLAIN: "plain", OAUTHBEARER: "oauthbearer"}.get(mechanism, "scram")
    module = f"org.apache.kafka.common.security.{package}.{MODULES[mechanism]}"
    options = "" if mechanism == OAUTHBEARER else ' username="…" password="…"'
    return f"write it as {module} required{options};"


def _refuse_mechanism(values: Values, context: _Context, mechanism: str, why: Unusable) -> None:
    reader = PrefixedValues(values, (context.prefix,))
    given = reader.given(context.mechanism.name)
    if given is not None:
        reader.wrong(given, why.reason, why.remedy)
        return
    default = f"Kafka's default {mechanism} {why.reason}"
    _missing(values, context.prefix + context.mechanism.name, default, why.remedy)


def _login(mechanism: str, entry: JaasSource, source: TokenSource | None) -> SaslLogin:
    """Return a login that reads its user and password again for each exchange.

    Raises Unusable, LoginUnusable and JaasError.
    """

    def read() -> SaslLogin:
        return SaslLogin.from_jaas(mechanism, entry.read(), source)

    async def credentials() -> Credentials:
        try:
            login = await asyncio.to_thread(read)
        except (Unusable, LoginUnusable, JaasError) as error:
            raise entry.unusable(error) from None
        return await login.credentials()

    return dataclasses.replace(read(), credentials=credentials)


# --- where it stands ----------------------------------------------------------------------------------------------


def _entry(values: Values, context: _Context, mechanism: str) -> JaasSource | None:
    """Return the login module; None if none is given, or if a problem was noted."""
    own = PrefixedValues(values, (context.own,)).secret(JAAS_CONFIG)
    if own is not None:
        return _in_property(own)
    in_file = _in_file(values, context.sections, mechanism)
    if in_file is not None or context.last is None:
        return in_file
    last = PrefixedValues(values, (context.last,)).secret(JAAS_CONFIG)
    return None if last is None else _in_property(last)


def _sections(listener: str) -> tuple[str, ...]:
    """Return the sections of the JAAS file that brokers have for a listener; the first one that is there counts."""
    return (f"{listener.lower()}.{SERVER_SECTION}", SERVER_SECTION)


def _in_property(given: PlacedSecret) -> JaasSource:
    return JaasSource(given.place, given.secret.path, lambda: parse_config(given.secret.reveal()))


def _in_file(values: Values, sections: tuple[str, ...], mechanism: str) -> JaasSource | None:
    """Return the login module in the JAAS file; None if it has no such section, or if a problem was noted."""
    reader = PrefixedValues(values, ("",))
    given = reader.given(JAAS_FILE.name)
    if given is None:
        return None
    path = Path(given.text)
    try:
        section = next((name for name in sections if name in read_sections(path)), None)
    except Unusable as error:
        reader.wrong(given, error.reason, error.remedy)
        return None
    except JaasError as error:
        reader.wrong(given, str(error), "mend that line, or name another file")
        return None
    if section is None:
        return None
    reader.warn_of_exposure(given.place, path)

    def read() -> JaasEntry:
        entries = read_sections(path).get(section)
        if not entries:
            raise Unusable(f"has no login module in a section {section}", "add it")
        return next((each for each in entries if each.module_name == MODULES[mechanism]), entries[0])

    return JaasSource(given.place, path, read)


# --- tokens -------------------------------------------------------------------------------------------------------


def _token_source(values: Values, context: _Context) -> TokenSource | None:
    reader = PrefixedValues(values, context.token_prefixes)
    url, command = reader.given(TOKEN_URL.name), reader.given(TOKEN_COMMAND.name)
    if url is not None and command is not None:
        reader.wrong_place(command.place, f"stands beside {url.place.name}", "give one of the two")
    if url is not None:
        return _token_file(reader, url)
    if command is not None:
        return _token_command(reader, command)
    remedy = f"set it to file:///path, or set {TOKEN_COMMAND.name}"
    _missing(values, context.prefix + TOKEN_URL.name, "OAUTHBEARER needs a token", remedy)
    return None


def _token_file(reader: PrefixedValues, url: Given) -> TokenSource | None:
    parts = urlsplit(url.text)
    if parts.scheme.lower() == "file" and parts.netloc in ("", "localhost") and parts.path:
        path = Path(unquote(parts.path))
        reader.warn_of_exposure(url.place, path)
        return TokenFile(path)
    remedy = f"write file:///path of a file that a program renews, or set {TOKEN_COMMAND.name}"
    reader.wrong_place(url.place, "is not the URL of a file, and Lethe asks no token endpoint", remedy)
    return None


def _token_command(reader: PrefixedValues, command: Given) -> TokenSource | None:
    try:
        words = shlex.split(command.text)
    except ValueError:
        reader.wrong_place(command.place, "has a quote without its end", "add the quote")
        return None
    return TokenCommand(words)


def _missing(values: Values, name: str, why: str, remedy: str) -> None:
    values.problems.append(Problem(name, values.source, None, f"is missing: {why}", remedy))
