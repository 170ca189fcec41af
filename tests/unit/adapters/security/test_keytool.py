"""keytool: where it is found, and that no list of processes shows a password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lethe.adapters.security.keytool import ConversionFailed, conversion_command, convert, find_keytool

FAKE = """\
#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done >> "$TMPDIR/arguments"
env > "$TMPDIR/environment"
next=
for word in "$@"; do
    if [ "$word" = -list ]; then echo 'odd, name, Nov 26, 2026, PrivateKeyEntry, '; exit 0; fi
    if [ "$next" = target ]; then echo store > "$word"; stat -c %a "$(dirname "$word")" > "$TMPDIR/mode"; fi
    if [ "$word" = -destkeystore ]; then next=target; else next=; fi
done
"""


def fake_keytool(tmp_path: Path, script: str = FAKE) -> str:
    path = tmp_path / "bin" / "keytool"
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return str(path)


def test_passwords_are_in_the_environment_and_not_among_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("KAFKA_SSL_KEYSTORE_PASSWORD", "of-no-use-to-keytool")
    converted = convert(fake_keytool(tmp_path), tmp_path / "key.jks", "störe pass", "key 'pass")
    arguments, environment = (tmp_path / "arguments").read_text(), (tmp_path / "environment").read_text()
    assert converted.data == b"store\n"
    assert converted.password not in repr(converted)
    for secret in ("störe pass", "key 'pass", converted.password):
        assert secret not in arguments
        assert secret in environment
    assert "of-no-use-to-keytool" not in environment
    assert "-srcalias\nodd, name\n" in arguments
    assert (tmp_path / "mode").read_text() == "700\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arguments", "bin", "environment", "mode"]


def test_keytool_of_java_home_is_before_that_of_path(tmp_path: Path) -> None:
    program = fake_keytool(tmp_path)
    for name in ("home", "path"):
        (tmp_path / name / "bin").mkdir(parents=True)
        os.link(program, tmp_path / name / "bin" / "keytool")
    home, path = str(tmp_path / "home"), str(tmp_path / "path" / "bin")
    assert find_keytool({"JAVA_HOME": home, "PATH": path}) == f"{home}/bin/keytool"
    assert find_keytool({"JAVA_HOME": str(tmp_path / "no"), "PATH": path}) == f"{path}/keytool"
    assert find_keytool({"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize(
    "script,message",
    [
        ("#!/bin/sh\nexit 1\n", "is a JKS store that keytool cannot convert: it is cut off or damaged"),
        ("#!/bin/sh\nexit 0\n", "has no entry that keytool could convert"),
        ("#!/nowhere/sh\n", "is a JKS store, and keytool did not run: FileNotFoundError"),
    ],
)
def test_a_keytool_that_fails(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(ConversionFailed) as raised:
        convert(fake_keytool(tmp_path, script), tmp_path / "key.jks", "secret-1", None)
    assert str(raised.value) == message


def test_the_command_for_a_person_has_no_password() -> None:
    assert conversion_command(Path("/a b/key.jks")) == (
        "keytool -importkeystore -srckeystore '/a b/key.jks' -destkeystore '/a b/key.p12' -deststoretype PKCS12"
    )
