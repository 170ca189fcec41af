"""The log of a Delta table: absent, damaged, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError

from lethe.adapters.table_logs import LogUnusable, open_log, paths_of, refusal


def test_no_log_is_not_a_table_without_files(tmp_path: Path) -> None:
    assert open_log(str(tmp_path)) is None
    assert paths_of(str(tmp_path)) is None


def test_only_what_cannot_be_read_is_called_damaged() -> None:
    for what, error, is_damaged in (
        ("read", DeltaError("\x1b[31mno such\nversion\x1b[0m"), True),
        ("read", PermissionError("no such version"), False),
        ("change", DeltaError("no such version"), False),
    ):
        with pytest.raises(LogUnusable) as refused, refusal(what, "/lake/t"):
            raise error
        said, _, remedy = str(refused.value).partition("no such version")
        assert said == f"cannot {what} the log of the table: /lake/t: "
        assert ("put a copy of the table's directory back" in remedy) is is_damaged
