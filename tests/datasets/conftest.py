"""No test looks at data that the user happens to have."""

import pytest


@pytest.fixture(autouse=True)
def _no_data_of_the_user(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("FEDCORE_DATA", raising=False)
