"""Which requests need a token: the table of the module, cell by cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.http_access import Access, HttpAccess, TokenScope
from lethe.adapters.http_token import BearerTokens

TOKEN = "0123456789abcdef" * 4
WITH, WITHOUT, WRONG = (f"Bearer {TOKEN}",), (), ("Bearer " + "f" * 64,)
NOBODY, CHANGES, ALL = "no token file", "for changes", "for all"


@pytest.fixture
def gates(tmp_path: Path) -> dict[str, HttpAccess]:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    return {
        NOBODY: HttpAccess(),
        CHANGES: HttpAccess(BearerTokens(path), TokenScope.CHANGES),
        ALL: HttpAccess(BearerTokens(path), TokenScope.ALL),
    }


@pytest.mark.parametrize(
    "gate,access,without,wrong,with_token",
    [
        (NOBODY, Access.OPEN, None, None, None),
        (NOBODY, Access.READS, None, None, None),
        (NOBODY, Access.CHANGES, 403, 403, 403),
        (CHANGES, Access.OPEN, None, None, None),
        (CHANGES, Access.READS, None, None, None),
        (CHANGES, Access.CHANGES, 401, 401, None),
        (ALL, Access.OPEN, None, None, None),
        (ALL, Access.READS, 401, 401, None),
        (ALL, Access.CHANGES, 401, 401, None),
    ],
)
def test_the_table(
    gates: dict[str, HttpAccess],
    gate: str,
    access: Access,
    without: int | None,
    wrong: int | None,
    with_token: int | None,
) -> None:
    refused = [gates[gate].refusal(access, given) for given in (WITHOUT, WRONG, WITH)]
    assert [None if each is None else each.status for each in refused] == [without, wrong, with_token]
    assert refused[0] == refused[1], "a wrong token is refused in the words for a missing one"


def test_two_headers_are_none(gates: dict[str, HttpAccess]) -> None:
    assert gates[ALL].refusal(Access.READS, (*WITH, *WITH)) is not None


def test_reasons_are_for_those_who_may_read(gates: dict[str, HttpAccess]) -> None:
    assert [gate.tells_reasons(WITHOUT) for gate in gates.values()] == [True, True, False]
    assert [gate.tells_reasons(WRONG) for gate in gates.values()] == [True, True, False]
    assert all(gate.tells_reasons(WITH) for gate in gates.values())


def test_refused_requests_are_logged_seldom_and_each_address_at_once(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [100.0]
    gate = HttpAccess(now_s=lambda: now_s[0])
    for peer in ("10.0.0.9", "10.0.0.8") * 3:
        gate.note_refused(peer, "/state")
    why = "it had no accepted token; give it one of lethe.http.token.file, or keep the address from the port"
    assert [record.getMessage() for record in caplog.records] == [
        f"refused an HTTP request of 10.0.0.9 for '/state': {why}",
        f"refused an HTTP request of 10.0.0.8 for '/state': {why}",
    ]
    now_s[0] += 601
    gate.note_refused("10.0.0.9", "/state\n2026 forged line")
    assert caplog.records[-1].getMessage() == (
        rf"refused an HTTP request of 10.0.0.9 for '/state\n2026 forged line': {why} (2 more before)"
    )
