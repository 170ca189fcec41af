"""Java's keystores (JKS), turned into PKCS12 by the JDK's own `keytool`.

Their private keys are encrypted in a way of Sun's that no library for Python reads. Passwords go to keytool in its
environment, so that no list of processes shows them, and the result gets a random password and lies in a directory that
only this user may enter, until it was read.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from lethe.adapters.security.files import private_directory

TIMEOUT_S: Final = 60
_ENGLISH: Final = "-J-Duser.language=en"
_KEY_ENTRY: Final = re.compile(r"^(.+), [A-Z][a-z]{2} \d{1,2}, \d{4}, PrivateKeyEntry, ?$", re.MULTILINE)


class ConversionFailed(Exception):
    """keytool gave no PKCS12. The message is a reason."""


class StorePasswordWrong(ConversionFailed):
    """The store's password is wrong, or the store is damaged."""


class KeyPasswordWrong(ConversionFailed):
    """The store opens, and the password of its private key is wrong."""


class Converted(NamedTuple):
    """A store as PKCS12, with the password that was made up for it."""

    data: bytes
    password: str

    def __repr__(self) -> str:
        return "Converted(<secret>)"


def find_keytool(environ: Mapping[str, str]) -> str | None:
    """Return the path of keytool: that of JAVA_HOME, or else the first in PATH; None if there is none."""
    home = environ.get("JAVA_HOME")
    if home and (found := shutil.which("keytool", path=str(Path(home) / "bin"))):
        return found
    return shutil.which("keytool", path=environ.get("PATH", os.defpath))


def conversion_command(path: Path) -> str:
    """Return the command with which a person converts the store; it asks for the passwords."""
    source, target = shlex.quote(str(path)), shlex.quote(str(path.with_suffix(".p12")))
    return f"keytool -importkeystore -srckeystore {source} -destkeystore {target} -deststoretype PKCS12"


def convert(keytool: str, path: Path, password: str | None, key_password: str | None) -> Converted:
    """Return the store as PKCS12. Takes about a second, twice that if the key has a password of its own.

    Raises ConversionFailed and Unusable.
    """
    own_key_password = key_password is not None and key_password != password
    with private_directory() as directory:
        target = directory / "store.p12"
        new_password = secrets.token_urlsafe(24)
        environ = {"NEW_PASSWORD": new_password, "STORE_PASSWORD": password or "", "KEY_PASSWORD": key_password or ""}
        source = ["-srckeystore", str(path), "-srcstoretype", "JKS"]
        opened = [] if password is None else ["-srcstorepass:env", "STORE_PASSWORD"]
        made = ["-destkeystore", str(target), "-deststoretype", "PKCS12", "-deststorepass:env", "NEW_PASSWORD"]
        alias: list[str] = []
        if own_key_password and (found := _key_alias(keytool, path, environ)) is not None:
            alias = ["-srcalias", found, "-srckeypass:env", "KEY_PASSWORD", "-destkeypass:env", "NEW_PASSWORD"]
        _run([keytool, _ENGLISH, "-importkeystore", "-noprompt", *source, *opened, *made, *alias], environ)
        try:
            return Converted(target.read_bytes(), new_password)
        except FileNotFoundError:
            raise ConversionFailed("has no entry that keytool could convert") from None


def _key_alias(keytool: str, path: Path, environ: Mapping[str, str]) -> str | None:
    """Return the alias of the first private key."""
    listed = _run(
        [keytool, _ENGLISH, "-list", "-keystore", str(path), "-storetype", "JKS", "-storepass:env", "STORE_PASSWORD"],
        environ,
    )
    found = _KEY_ENTRY.search(listed)
    return None if found is None else found[1]


def _run(command: list[str], environ: Mapping[str, str]) -> str:
    """Return what keytool prints. An empty answer, where it asks for a password, skips the check of integrity."""
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME", "TMPDIR") if name in os.environ}
    try:
        done = subprocess.run(
            command, input=b"\n", capture_output=True, timeout=TIMEOUT_S, check=False,
            env={**kept, "LC_ALL": "C.UTF-8", **environ},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise ConversionFailed(f"is a JKS store, and keytool did not run: {type(error).__name__}") from None
    printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.returncode == 0:
        return printed
    if "Cannot recover key" in printed or "Enter key password" in printed:
        raise KeyPasswordWrong("opens, and the password of its private key is wrong")
    if "password was incorrect" in printed:
        raise StorePasswordWrong("is not opened by the password, or it is damaged")
    raise ConversionFailed("is a JKS store that keytool cannot convert: it is cut off or damaged")
