"""The wheel, built and used where there is nothing of the source tree."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import fedcore

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
LOOK = """
import json, sys
from importlib.resources import files
import fedcore
from fedcore.report.paper import benchmarks
inside = files("fedcore")
found = [name for name in NAMES if inside.joinpath(name).is_file()]
told = {"path": sys.path, "file": fedcore.__file__, "found": found, "paper": list(benchmarks())}
print(json.dumps(told))
"""


def outside(*command, folder):
    """Run a command in an empty folder with nothing of ours in the environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**clean, "OMP_NUM_THREADS": "1"},
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    try:
        enough = int(version("setuptools").partition(".")[0]) >= 77
    except ModuleNotFoundError:
        enough = False
    if not enough:
        pytest.skip("setuptools 77 or newer is not installed, and the index is not asked for it")
    work = tmp_path_factory.mktemp("wheel")
    tree = work / "tree"  # a copy: building leaves folders behind
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(
        ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    outside(sys.executable, *build, "-w", work, tree, folder=work)
    (built,) = work.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """A fresh environment with the wheel, which borrows torch and the rest from this one."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    there = home / "bin" / "python"
    pip = ("-m", "pip", "--python", there, "install", "--quiet", "--no-deps", "--no-index")
    outside(sys.executable, *pip, wheel, folder=home)
    (site,) = (home / "lib").glob("*/site-packages")
    # Folders named by a .pth are not searched for .pth files: an editable install stays outside.
    lent = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "lent.pth").write_text("\n".join(sorted(lent)))
    return there


def shipped():
    """Files of the source tree that are no Python: a wheel may forget them."""
    source = ROOT / "src" / "fedcore"
    kept = (one for one in source.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
    return sorted(one.relative_to(source).as_posix() for one in kept if one.suffix != ".py")


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src"
    files = (one for one in (source / "fedcore").rglob("*") if one.is_file())
    wanted = [one.relative_to(source).as_posix() for one in files if "__pycache__" not in one.parts]
    ours = [name for name in names if ".dist-info/" not in name]
    assert sorted(ours) == sorted(wanted)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_it_is_imported_from_there_with_its_data(python, tmp_path):
    names = shipped()
    assert {"py.typed", "report/data/paper.json"} <= set(names)
    seen = json.loads(outside(python, "-c", LOOK.replace("NAMES", repr(names)), folder=tmp_path))
    assert Path(seen["file"]).is_relative_to(python.parents[1])
    assert seen["found"] == names
    assert "mnist" in seen["paper"]
    of_the_tree = {str(ROOT), str(ROOT / "src"), str(ROOT / "tests")}
    assert not of_the_tree & set(seen["path"])


def test_its_command_compares(python, tmp_path):
    command = python.with_name("fedcore")
    assert fedcore.__version__ in outside(command, "--version", folder=tmp_path)
    options = ("--benchmark", "synthetic-1-1", "--strategies", "fedavg,fedcore", "--rounds", "2")
    # The fleet of phones reads a table of speeds that the package brings along.
    # Nothing compiled, for a fresh environment would spend half a minute on compiling it.
    more = ("--epochs", "2", "--stragglers", "30", "--capability", "phones", "--no-plots")
    more += ("--executor", "sequential", "--selector", "uniform")
    outside(command, "compare", *options, *more, "--out", "job", folder=tmp_path)
    results = json.loads((tmp_path / "job" / "summary.json").read_text())["results"]
    assert [row["rounds"] for row in results] == [2, 2]
    page = (tmp_path / "job" / "report.html").read_text()
    assert "Chart.js" in page
    assert sorted(one.name for one in tmp_path.iterdir()) == ["job"]
