"""No test looks at data that the user happens to have."""

import pytest


@pytest.fixture(autouse=True)
def _no_data_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()  # PyTorch, on a GPU, makes folders in it, but not it
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDCORE_DATA", raising=False)
