"""Equality of whole rounds with the plain loop is the executor contract's business."""

import logging

import pytest
import torch
from llvmlite import binding

from fedcore.client.executors.forms import by_module, form_of
from fedcore.models.char_lstm import CharacterLstm, lstm_tile
from fedcore.models.char_lstm import compiled_lstm as compiled
from fedcore.task import Task

SYMBOLS = 6
wide = pytest.mark.skipif(not compiled._works(), reason="this processor has no AVX-512")


def a_case(batch, dtype=torch.float32, length=9):
    torch.manual_seed(0)
    task = Task(CharacterLstm(SYMBOLS).to(dtype))
    params = {n: v[None].requires_grad_() for n, v in task.initial_params().items()}
    return task, params, torch.randint(SYMBOLS, (1, batch, length))


def results(form, params, x, slopes):
    probe = torch.zeros(1, x.shape[1], SYMBOLS, dtype=slopes.dtype, requires_grad=True)
    scores, inputs = form(params, x, probe)
    wanted = [*params.values(), probe]
    return [scores, inputs, *torch.autograd.grad((scores.sigmoid() * slopes).sum(), wanted)]


@wide
@pytest.mark.parametrize(
    ("batch", "length"), [(8, 9), (7, 9), (16, 2), (8, 1), (1, 9)]
)  # a batch of 1 is not worth its padding, but right
def test_scores_and_gradients_are_as_near_to_the_truth_as_the_module_s(batch, length):
    task, params, x = a_case(batch, length=length)
    exact_task, exact_params, _ = a_case(batch, torch.float64, length)
    slopes = torch.randn(1, batch, SYMBOLS)
    exact = results(by_module(exact_task), exact_params, x, slopes.double())
    plain = results(by_module(task), params, x, slopes)
    ours = results(compiled.compiled_lstm, params, x, slopes)
    for one, other, truth in zip(ours, plain, exact, strict=True):
        scale = float(truth.detach().norm())
        assert float((other - truth).detach().norm()) <= 2e-6 * scale
        assert float((one - truth).detach().norm()) <= 2e-6 * scale


@wide
def test_equal_inputs_give_equal_bits():
    _, params, x = a_case(8)
    slopes = torch.randn(1, 8, SYMBOLS)
    first, second = (results(compiled.compiled_lstm, params, x, slopes) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@wide
def test_a_model_that_diverged_shows_it():
    _, params, x = a_case(8)
    with torch.no_grad():
        params["lstm.weight_hh_l1"][0, 0, 0] = float("nan")
    scores, _ = compiled.compiled_lstm(params, x, None)
    assert scores.isnan().all()


@wide
def test_one_may_go_back_twice():
    _, params, x = a_case(8)
    scores, _ = compiled.compiled_lstm(params, x, None)
    wanted = list(params.values())
    first = torch.autograd.grad(scores.sum(), wanted, retain_graph=True)
    second = torch.autograd.grad(scores.sum(), wanted)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@wide
def test_only_what_the_tiles_can_take_goes_through_them(monkeypatch):
    def fit(batch, dtype=torch.float32):
        _, params, x = a_case(batch, dtype)
        return compiled.fits(params, x)

    assert [fit(batch) for batch in (8, 16, 7, 4, 9, 33)] == [True, True, True, False, False, True]
    assert not fit(8, torch.float64)
    assert (compiled.ROWS, compiled.COLUMNS) == (lstm_tile.ROWS, lstm_tile.COLUMNS)


@wide
def test_one_client_takes_the_compiled_form_and_several_do_not(monkeypatch):
    task, params, x = a_case(8)
    calls = []
    taken = compiled.lstm_states
    monkeypatch.setattr(compiled, "lstm_states", lambda *a: calls.append(1) or taken(*a))
    form_of(task)(params, x, None)
    assert calls == [1]
    form_of(task)(
        {n: v.expand(2, *v.shape[1:]) for n, v in params.items()}, x.expand(2, 8, 9), None
    )
    assert calls == [1]


def refused(caplog):
    compiled._works.cache_clear()
    with caplog.at_level(logging.INFO):
        assert [compiled._works() for _ in range(2)] == [False, False]
    compiled._works.cache_clear()
    return [record.getMessage() for record in caplog.records]


def test_without_numba_the_library_is_taken(monkeypatch, caplog):
    monkeypatch.setattr(compiled, "have_numba", lambda: False)
    assert refused(caplog) == ["the LSTM takes PyTorch's kernel: numba is not installed"]


def test_without_wide_registers_the_library_is_taken(monkeypatch, caplog):
    monkeypatch.setattr(binding, "get_host_cpu_features", dict)
    assert refused(caplog) == ["the LSTM takes PyTorch's kernel: this processor has no AVX-512"]


def test_a_compiler_that_fails_is_named_once(monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("no such instruction\nand a long story")

    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"avx512f": True})
    monkeypatch.setattr(compiled, "lstm_states", fail)
    assert refused(caplog) == ["the LSTM takes PyTorch's kernel: no such instruction"]


@wide
@pytest.mark.parametrize("symbol", [-1, SYMBOLS])
def test_symbols_outside_the_vocabulary_are_refused(symbol):
    """As the module does, and before compiled code writes where nothing of ours is."""
    task, params, x = a_case(8)
    x[0, 3, 4] = symbol
    with pytest.raises(IndexError, match=f"symbols must be 0 to {SYMBOLS - 1}"):
        compiled.compiled_lstm(params, x, None)
    with pytest.raises(IndexError):
        by_module(task)(params, x, None)
