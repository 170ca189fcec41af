"""A local disk does what Hadoop's file system does, and refuses in the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lethe.pipeline.io.files import FileSystemError
from lethe.pipeline.io.local_files import LocalFiles


def test_files_are_written_renamed_and_removed(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    for _ in range(2):
        files.make_directory(f"{files.root}/a/b")
    files.write_text(f"{files.root}/a/b/one", "é")
    files.rename(f"{files.root}/a/b", f"{files.root}/a/c")
    assert files.read_text(f"{files.root}/a/c/one") == "é"
    assert [(item.name, item.is_directory) for item in files.list_directory(f"{files.root}/a")] == [("c", True)]
    for _ in range(2):
        files.remove(f"{files.root}/a/c/one")
        files.remove(f"{files.root}/a")
    assert not files.exists(f"{files.root}/a")
    assert files.list_directory(f"{files.root}/a") == []


@pytest.mark.parametrize(
    "action, what",
    [
        (lambda files, path: files.read_text(path), "read"),
        (lambda files, path: files.write_text(path, ""), "write"),
        (lambda files, path: files.make_directory(path), "make"),
        (lambda files, path: files.rename(path, f"{path}-2"), "rename to .*-2"),
        (lambda files, path: files.remove(path), "remove"),
    ],
)
def test_a_refusal_names_the_action_and_the_place(
    tmp_path: Path, action: Callable[[LocalFiles, str], object], what: str
) -> None:
    (tmp_path / "file").touch()
    files = LocalFiles(str(tmp_path))
    with pytest.raises(FileSystemError, match=f"cannot {what}: file:.*/file/below: Not a directory"):
        action(files, f"{files.root}/file/below")
