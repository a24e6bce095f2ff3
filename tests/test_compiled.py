import os
import subprocess
import sys

import numba

from fedcore.compiled import compiled, have_numba

WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None  # what an import finds where numba is not installed
import fedcore, fedcore.coreset.medoids.solve
"""


def test_a_compiled_function_computes_what_python_computes():
    def sum_of_squares(values: tuple[float, ...]) -> float:
        total = 0.0
        for value in values:
            total += value * value
        return total

    assert compiled(sum_of_squares)((1.0, 2.0, 3.0)) == sum_of_squares((1.0, 2.0, 3.0)) == 14.0


def test_where_nothing_may_be_written_kernels_are_compiled_and_not_kept(monkeypatch, caplog):
    compile_now = numba.njit

    def refusing(*, cache=False, **options):
        def decorate(function):
            if cache:
                raise RuntimeError("cannot cache function: no locator available")  # as numba says
            return compile_now(**options)(function)

        return decorate

    monkeypatch.setattr(numba, "njit", refusing)

    def half(value: float) -> float:
        return value / 2.0

    assert compiled(half)(3.0) == 1.5
    assert compiled(half)(5.0) == 2.5
    assert [r.message for r in caplog.records if "NUMBA_CACHE_DIR" in r.message] == [
        "compiled code cannot be kept for the next time: there is no folder that may be written; "
        "set NUMBA_CACHE_DIR to one"
    ]


def test_numba_is_here_in_development():
    assert have_numba()


def test_the_solver_can_be_imported_without_numba():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True)


TWO_KERNELS = """
import sys
sys.path.insert(0, sys.argv[1])
import kernels
assert kernels.twice(2) == 4 and kernels.thrice(2) == 6
"""
KERNELS = """
from fedcore.compiled import compiled, compiled_training
@compiled
def twice(value):
    return 2 * value
@compiled_training
def thrice(value):
    return 3 * value
"""


def test_compiling_is_announced_once_and_not_when_the_code_is_on_disk(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    command = [sys.executable, "-c", TWO_KERNELS, str(tmp_path)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stderr
        for _ in range(2)
    ]
    assert said[0].count("compiling for this machine, once") == 1
    assert said[1] == ""
