"""The warm-up is believed exactly as long as what it compiled can still be there."""

import numpy as np
import pytest
import torch

from fedcore.flower import warm

pytest.importorskip("numba")


@pytest.fixture
def cold(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    warm._mark.cache_clear()
    yield tmp_path
    warm._mark.cache_clear()


@pytest.mark.parametrize("selector", ["uniform-plain", "uniform", "craig", "el2n"])
def test_who_needs_no_solver_is_always_warm(cold, selector):
    assert warm.is_warm(selector)


@pytest.mark.parametrize("selector", ["kmedoids", "kmedoids-per-class", "kmedoids-same-label"])
def test_who_needs_the_solver_waits_for_it(cold, selector):
    assert not warm.is_warm(selector)
    warm._mark().touch()
    assert warm.is_warm(selector)


def test_other_code_is_cold_again(cold, monkeypatch):
    warm._mark().touch()
    assert warm.is_warm("kmedoids")
    monkeypatch.setattr(warm, "version", lambda _: "99.0")
    warm._mark.cache_clear()
    assert not warm.is_warm("kmedoids")


def test_without_numba_there_is_nothing_to_compile(cold, monkeypatch):
    monkeypatch.setattr(warm, "have_numba", lambda: False)
    assert warm.is_warm("kmedoids")
    assert "nothing to compile" in warm.warm()


@pytest.mark.slow
def test_after_it_nothing_is_compiled_any_more(cold):
    """All signatures that clients meet: gradients of both kinds, few points and many."""
    told = warm.warm()
    assert "compiled the solver" in told
    assert warm.is_warm("kmedoids")
    from numba.core import event

    from fedcore.coreset.medoids.solve import solve
    from fedcore.coreset.proxies import HeadGradients, residual_metric, space_of

    draws = np.random.default_rng(1)
    compiled = []

    class Listener(event.Listener):
        def on_start(self, event):
            compiled.append(event.data["dispatcher"])

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Listener()):
        for count, k in ((40, 5), (900, 100), (5000, 40)):
            residuals = torch.from_numpy(draws.normal(size=(count, 10))).float()
            inputs = torch.from_numpy(draws.normal(size=(count, 32))).float()
            weight = torch.from_numpy(draws.normal(size=(10, 32))).float()
            seen = HeadGradients(residuals, inputs, torch.zeros(count))
            solve(residual_metric(residuals, weight), k, seconds=5.0)
            solve(space_of("last-layer", seen, weight, bias=True), k, seconds=5.0)
            solve(residuals, k, labels=torch.arange(count) % 4)
    assert compiled == []
