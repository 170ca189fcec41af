"""The backup is read as it was written, is never overwritten, and a torn line is no repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.admin.doctor_backup import Backup, BackupFile, BackupUnusable, SavedRepair, SavedZnode, read_backup
from lethe.admin.refusal import Refusal

ONE = SavedRepair(
    "config_without_topic",
    "/config/topics/gone",
    "gone",
    (SavedZnode("/config/topics/gone", b"\xff{", 7), SavedZnode("/a", None, 8, ephemeral=True)),
    ("/brokers/topics/gone",),
)
TWO = SavedRepair("control", "2 repairs", None, (SavedZnode("/b", None, None),))


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    file = BackupFile(tmp_path / "backup", "id", 5)
    file.demand_new()
    assert not file.path.exists()
    assert file.begin(ONE) == 1
    assert read_backup(file.path) == Backup("id", 5, (ONE,))
    file.end(1, {"/config/topics/gone": None, "/a": 9})
    assert file.begin(TWO) == 2
    (first, second) = read_backup(file.path).repairs
    assert (first.after, second) == ({"/config/topics/gone": None, "/a": 9}, TWO)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [each.existed for each in (*ONE.before, *TWO.before)] == [True, True, False]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    file = BackupFile(tmp_path / "backup", None, 5)
    file.begin(ONE)
    whole = file.path.read_bytes()
    file.begin(TWO)
    torn = file.path.read_bytes()[:-3]
    file.path.write_bytes(torn)
    assert read_backup(file.path).repairs == (ONE,)
    assert torn.startswith(whole)


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "backup"
    path.write_text("mine")
    with pytest.raises(BackupUnusable, match="exists"):
        BackupFile(path, None, 0).demand_new()
    with pytest.raises(BackupUnusable, match="exists"):
        BackupFile(path, None, 0).begin(ONE)
    assert path.read_text() == "mine"
    with pytest.raises(BackupUnusable, match="is no directory"):
        BackupFile(tmp_path / "missing" / "backup", None, 0).demand_new()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]\n", b"{}\n", b'{"lethe_doctor_backup":9,"cluster_id":null,"taken_at":1}\n', b"\xff\n"]
)
def test_anything_else_is_no_backup(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "backup"
    path.write_bytes(content)
    with pytest.raises(BackupUnusable, match="is no backup"):
        read_backup(path)
    with pytest.raises(Refusal, match="--restore: .*missing does not exist; name an existing file"):
        read_backup(tmp_path / "missing")
