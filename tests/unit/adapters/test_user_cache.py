from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.user_cache import user_cache


def without_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_files_are_in_the_cache_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache({}) == tmp_path / ".cache" / "lethe"
    assert user_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/lethe")
    assert user_cache({"XDG_CACHE_HOME": ""}).is_relative_to(tmp_path), "an empty name is none"
    assert user_cache({"XDG_CACHE_HOME": "c"}).is_relative_to(tmp_path), "nor is one of the present directory"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", without_home)
    with pytest.raises(OSError, match="set HOME or XDG_CACHE_HOME"):
        user_cache({})
