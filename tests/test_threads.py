import builtins
import inspect
import sys
import threading
import types

import numpy as np
import pytest
import torch

import fedcore
from fedcore import threads
from fedcore.threads import one_thread_each


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def libraries():
    """Threads of everything of PyTorch's and NumPy's that is loaded, by who is asked anew."""
    control = pytest.importorskip("threadpoolctl")
    found = control.threadpool_info()
    # scikit-learn brings an OpenMP of its own, which nothing of ours calls.
    return [one["num_threads"] for one in found if "scikit_learn.libs" not in one["filepath"]]


def test_bounded_inside_and_as_before_behind_it(two_threads):
    before = libraries()
    with one_thread_each():
        assert torch.get_num_threads() == 1
        assert set(libraries()) == {1}
    assert torch.get_num_threads() == 2
    assert libraries() == before


def test_as_before_after_an_error_too(two_threads):
    before = libraries()
    with pytest.raises(ValueError, match="no"), one_thread_each():
        raise ValueError("no")
    assert (torch.get_num_threads(), libraries()) == (2, before)


def test_a_call_within_a_call_changes_nothing(two_threads):
    with one_thread_each():
        with one_thread_each():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
        assert set(libraries()) == {1}
    assert torch.get_num_threads() == 2


def test_two_callers_at_once_and_both_give_back(two_threads):
    before = libraries()
    entered, leave = threading.Event(), threading.Event()
    seen = {}

    def other():
        with one_thread_each():
            seen["inside"] = torch.get_num_threads()
            entered.set()
            assert leave.wait(20)
        seen["behind"] = torch.get_num_threads()

    with one_thread_each():
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(20)
    assert torch.get_num_threads() == 2
    leave.set()
    thread.join()
    assert seen == {"inside": 1, "behind": 2}
    assert libraries() == before


def test_without_threadpoolctl_pytorch_is_bounded(two_threads, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "threadpoolctl":
            raise ImportError(name)
        return real(name, *arguments, **options)

    threads._blas.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with one_thread_each():
        assert torch.get_num_threads() == 1
    monkeypatch.undo()
    threads._blas.cache_clear()
    assert torch.get_num_threads() == 2


OWN_SELECTOR = """
import torch
from seen_threads import seen

def select(candidates, budget, generator):
    seen.append(torch.get_num_threads())
    raise LookupError
"""


def test_what_users_call_is_bounded_and_gives_back(two_threads, tmp_path):
    """Seen from inside: a selector of their own, and what is called after each round."""
    seen = []

    (tmp_path / "own.py").write_text(OWN_SELECTOR)
    sys.modules["seen_threads"] = types.SimpleNamespace(seen=seen)
    points, own = np.random.default_rng(0).normal(size=(30, 2)), str(tmp_path / "own.py")
    with pytest.raises(fedcore.errors.BadOption, match="LookupError"):
        fedcore.select_coreset(points, 5, selector=own)
    assert torch.get_num_threads() == 2
    x = torch.randn(20, 3)
    fedcore.simulate(
        [(x, (x[:, 0] > 0).long())] * 3,
        torch.nn.Linear(3, 2),
        strategy="fedavg",
        rounds=1,
        epochs=1,
        clients_per_round=2,
        learning_rate=0.1,
        on_round=lambda record: seen.append(torch.get_num_threads()),
    )
    assert seen == [1, 1]
    assert torch.get_num_threads() == 2


def test_signatures_stay_those_of_the_functions():
    for function in (fedcore.simulate, fedcore.select_coreset, fedcore.coreset_for):
        assert {"budget", "strategy"} & set(inspect.signature(function).parameters)
