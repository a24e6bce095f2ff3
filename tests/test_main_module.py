import ast
import importlib
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
import fedcore


def test_python_dash_m_is_the_command():
    result = subprocess.run(
        [sys.executable, "-m", "fedcore", "--version"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("fedcore 0.")


def test_importing_it_runs_nothing():
    importlib.import_module("fedcore.__main__")


@pytest.mark.parametrize(
    "reaction", ["raise", "raise ImportError('numpy failed to import') from None"]
)
def test_an_interruption_while_modules_are_imported_is_one_word(tmp_path, reaction):
    (tmp_path / "typer.py").write_text(
        "import time\nprint('importing', flush=True)\n"
        f"try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    {reaction}\n"
    )
    here = os.path.dirname(os.path.dirname(fedcore.__file__))
    process = subprocess.Popen(
        [sys.executable, "-m", "fedcore", "--version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{here}"},
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "interrupted\n")
    assert process.returncode == 130


def test_every_public_name_is_there_and_known_to_type_checkers():
    with open(fedcore.__file__.replace(".py", ".pyi")) as file:
        imports = [one for one in ast.parse(file.read()).body if isinstance(one, ast.ImportFrom)]
    named = [alias for one in imports for alias in one.names]
    # Of a stub, type checkers take for public what is imported as what it is called.
    assert all(alias.asname == alias.name for alias in named)
    known = {alias.name for alias in named}
    assert known == {*fedcore.__all__, "CoresetSelector"} - {"__version__"}
    assert all(getattr(fedcore, name) is not None for name in fedcore.__all__)
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        fedcore.simulat  # noqa: B018


def test_the_package_alone_imports_nothing_heavy():
    code = "import sys, fedcore, fedcore.__main__; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_citation_names_this_version():
    from pathlib import Path

    from fedcore import __version__

    cited = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in cited
