"""Options of Spark's source for Kafka, from a client.properties of Kafka: what is secret stays in that file.

Spark shows options in plans, and keeps them in the memory of driver and executors. So an option that is secret is only
a reference, which Kafka's consumers resolve where they run (KIP-297):

    ssl.truststore.location=/etc/ca.pem    kafka.ssl.truststore.location=/etc/ca.pem
    sasl.jaas.config=… password="…";       kafka.sasl.jaas.config=${file:/etc/client.properties:sasl.jaas.config}

A token for OAUTHBEARER needs a login module and a handler in Java, which the file may leave out, as for commands.

The file and the stores that it names have to lie under the same names wherever Spark's consumers run. Lethe's own names
mean nothing there: they are refused, with what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lethe.adapters.config_environment import Setting
from lethe.adapters.config_misspelt import misspelt
from lethe.adapters.kafka.config_reach import CLIENT_SCHEMA, without_effect
from lethe.adapters.properties import ConfigError, Problem, names_secret, read_values
from lethe.adapters.security.config_names_sasl import (
    CLIENT_MECHANISM,
    CLIENT_PROTOCOL,
    JAAS_CONFIG,
    TOKEN_COMMAND,
    TOKEN_URL,
)
from lethe.adapters.security.jaas_file import JAAS_FILE
from lethe.adapters.security.prefixed import FILE_SUFFIX, PrefixedValues
from lethe.protocol.security.jaas import JaasError, parse_config
from lethe.protocol.security.oauthbearer import OAUTHBEARER

PREFIXES: Final = ("security.", "ssl.", "sasl.")
"""Of the properties that are passed on; what a consumer reads beside the connection is the pipeline's choice."""
PROVIDER: Final = {
    "kafka.config.providers": "file",
    "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
_OF_TOKENS: Final = {
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    "kafka.sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    ),
}
"""What a consumer needs beside the URL of a token, where the file has nothing else."""
_UNUSABLE: Final = ":}"
"""Characters that end a path in a reference."""


def kafka_options(path: Path, warn: Callable[[str], None]) -> dict[str, str]:
    """Return the options for the file; `warn` receives its warnings. Raises ConfigError with all problems."""
    path = path.absolute()
    values = read_values(path, {}, {})
    given = values.settings
    PrefixedValues(values, ("",)).text(CLIENT_PROTOCOL)  # notes one that there is not
    problems = [*values.problems, *misspelt(given, CLIENT_SCHEMA), *_problems(path, given)]
    if problems:
        raise ConfigError(problems)
    for warning in without_effect(values):
        warn(warning)
    options = {
        f"kafka.{name}": f"${{file:{path}:{name}}}" if names_secret(name) else setting.value
        for name, setting in given.items()
        if name.startswith(PREFIXES)
    }
    if TOKEN_URL.name in given and options.get(f"kafka.{CLIENT_MECHANISM.name}", "").strip() == OAUTHBEARER:
        options = {**_OF_TOKENS, **options}
    return {**options, **PROVIDER} if any(map(names_secret, options)) else options


def _problems(path: Path, given: Mapping[str, Setting]) -> list[Problem]:
    found = [
        Problem(
            name,
            setting.origin,
            None,
            "is a name of Lethe's, which Spark's source does not have",
            f"write {name.removesuffix(FILE_SUFFIX)} itself, in a file that only its user may read",
        )
        for name, setting in given.items()
        if name.endswith(FILE_SUFFIX) and name.removesuffix(FILE_SUFFIX) in CLIENT_SCHEMA
    ]
    if (setting := given.get(JAAS_CONFIG)) is not None:
        try:
            parse_config(setting.value)
        except JaasError as error:
            found.append(Problem(JAAS_CONFIG, setting.origin, None, str(error), "mend that line"))
    if (setting := given.get(JAAS_FILE.name)) is not None:
        remedy = "write sasl.jaas.config with the login module instead"
        found.append(Problem(JAAS_FILE.name, setting.origin, None, "is a property of Java's process", remedy))
    if (setting := given.get(TOKEN_COMMAND.name)) is not None:
        remedy = f"write {TOKEN_URL.name}=file:///path of a file that a program renews instead"
        found.append(
            Problem(TOKEN_COMMAND.name, setting.origin, None, "is a name that Spark's source does not have", remedy)
        )
    if any(map(names_secret, given)) and any(character in str(path) for character in _UNUSABLE):
        reason = "has a colon or a brace in its path, which Kafka cannot refer to"
        found.append(Problem("file", str(path), None, reason, "move it, or link to it"))
    return found
