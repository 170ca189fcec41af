"""Tokens from files and commands: what is read, and each way in which there is none."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from lethe.adapters.security.tokens import MAX_TOKEN_BYTES, TokenCommand, TokenFile, TokenUnavailable


def command(code: str, timeout_ms: int = 30_000) -> TokenCommand:
    return TokenCommand((sys.executable, "-c", code), timeout_ms)


async def test_a_file_is_read_again_each_time(tmp_path: Path) -> None:
    source = TokenFile(tmp_path / "token")
    for token in ("abc", "d.e-f"):
        source.path.write_text(f" {token}\n")
        assert await source.token() == token
    source.path.write_bytes(b"\xef\xbb\xbfabc\r\n")
    assert await source.token() == "abc", "as some editors write it"


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"s3cret\nother\n", "not one token"),
        (b"s3cret\xe4", "is not ASCII"),
        (b"s" * (MAX_TOKEN_BYTES + 1), "more than"),
    ],
)
async def test_a_file_without_a_token(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(TokenUnavailable, match=f"the token in {tmp_path}/token .*{reason}") as failed:
        await TokenFile(tmp_path / "token").token()
    assert "s3cret" not in str(failed.value)


async def test_a_file_that_is_not_there_or_not_readable(tmp_path: Path) -> None:
    with pytest.raises(TokenUnavailable, match="does not exist; name an existing file with its whole path"):
        await TokenFile(tmp_path / "token").token()
    with pytest.raises(TokenUnavailable, match="is a directory; name the file in it"):
        await TokenFile(tmp_path).token()


async def test_a_command_is_run_each_time(tmp_path: Path) -> None:
    source = command(f"import os; print('t%d' % len(os.listdir({str(tmp_path)!r})))")
    assert await source.token() == "t0"
    (tmp_path / "one").touch()
    assert await source.token() == "t1"


@pytest.mark.parametrize(
    "code, reason",
    [
        ("print('s3cret'); raise SystemExit(3)", "exit status 3; run it by hand"),
        ("pass", "is empty"),
        ("print('s3cret'); print('other')", "not one token"),
        (f"print('s' * {MAX_TOKEN_BYTES + 1})", "more than 65,536 bytes"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit status -9"),
    ],
)
async def test_a_command_without_a_token(code: str, reason: str) -> None:
    with pytest.raises(TokenUnavailable, match=f"the token from the command .*{reason}") as failed:
        await command(code).token()
    assert "s3cret" not in str(failed.value)


async def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(TokenUnavailable, match="the command /no/such/program cannot be started: No such file"):
        await TokenCommand(("/no/such/program",)).token()


async def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    source = command(
        f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)", 2000
    )
    with pytest.raises(TokenUnavailable, match="did not come within 2000 ms"):
        await source.token()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_command_is_ended_with_the_login_that_waits_for_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    source = command(f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid()) + '.'); time.sleep(600)")
    waiting = asyncio.create_task(source.token())
    async with asyncio.timeout(30):
        while not (pid.exists() and pid.read_text().endswith(".")):
            await asyncio.sleep(0.005)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text().rstrip(".")), 0)
