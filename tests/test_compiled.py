import subprocess
import sys

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


def test_numba_is_here_in_development():
    assert have_numba()


def test_the_solver_can_be_imported_without_numba():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True)
