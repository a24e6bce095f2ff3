"""Every example runs as its first lines say."""

import difflib
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["quickstart.py", "naive_fedcore.py", "coreset.py"])
def test_scripts(name):
    if name == "coreset.py":
        pytest.importorskip("sklearn")
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout or "weights sum to 2000" in result.stdout


def script(name, *options):
    return subprocess.run(
        [sys.executable, ROOT / "examples" / name, *options],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_a_table_of_numbers_is_predicted():
    result = script("regression.py")
    assert result.returncode == 0, result.stderr
    loss, r2, error = re.findall(r"[\d.]+", result.stdout.replace("R2", ""))[:3]
    assert float(loss) < 1.0
    assert float(r2) > 0.85
    assert float(error) < 0.8
    assert "rows of" in result.stdout


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_a_folder_of_images(norm):
    result = script("image_folder.py", "--norm", norm, "--rounds", "4")
    assert result.returncode == 0, result.stderr
    assert float(re.search(r"accuracy ([\d.]+)%", result.stdout)[1]) > 80


def test_a_folder_of_ones_own(tmp_path):
    import numpy as np

    for label, name in enumerate(("dark", "light")):
        (tmp_path / name).mkdir()
        for number in range(40):
            np.save(tmp_path / name / f"{number}.npy", np.full((3, 16, 16), label, np.float32))
    result = script("image_folder.py", "--folder", str(tmp_path), "--rounds", "2")
    assert result.returncode == 0, result.stderr
    assert "accuracy 100.0%" in result.stdout


def test_a_text_classifier_with_low_rank_updates_says_what_is_missing():
    if find_spec("transformers") and find_spec("peft"):
        pytest.skip("transformers and peft are installed")
    result = script("lora_text.py")
    assert result.returncode == 1
    assert result.stderr.strip().endswith("not installed; pip install transformers peft")
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_text_classifier_with_low_rank_updates():
    pytest.importorskip("transformers", reason="examples/lora_text.py needs transformers")
    pytest.importorskip("peft", reason="examples/lora_text.py needs peft")
    result = script("lora_text.py")
    assert result.returncode == 0, result.stderr
    assert float(re.search(r"accuracy ([\d.]+)%", result.stdout)[1]) > 75
    sent, everything = re.findall(r"[\d,]+(?= bytes|$)", result.stdout.splitlines()[1])
    assert int(sent.replace(",", "")) < 0.1 * int(everything.replace(",", ""))


def test_a_training_script_is_federated_by_fifteen_lines():
    """Every line that comes or goes counts, the docstring's and blank ones too."""
    before, after = (
        (ROOT / "examples" / name).read_text().splitlines()
        for name in ("script.py", "federated_script.py")
    )
    changed = [line for line in difflib.ndiff(before, after) if line.startswith(("+ ", "- "))]
    assert 0 < len(changed) <= 15
    accuracies = []
    for name in ("script.py", "federated_script.py"):
        result = subprocess.run(
            [sys.executable, ROOT / "examples" / name],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        accuracies.append(float(result.stdout.removeprefix("test accuracy ")))
    central, federated = accuracies
    assert central > 0.97
    assert federated > central - 0.03


def test_the_own_strategy_is_a_strategy():
    from fedcore import plugins
    from fedcore.types import ClientProfile

    path = str(ROOT / "examples" / "own_strategy.py")
    strategy = plugins.load("strategy", path).build()
    plan = strategy.plan(ClientProfile(100, 1.0), 99.0, 10)
    assert plan.work(100) == 90


def test_who_has_no_time_for_a_sample_sits_out():
    from fedcore import plugins
    from fedcore.types import SIT_OUT, ClientProfile

    strategy = plugins.load("strategy", str(ROOT / "examples" / "own_strategy.py")).build()
    assert strategy.plan(ClientProfile(100, 1.0), 0.5, 10) == SIT_OUT
    assert strategy.plan(ClientProfile(100, 1.0), 7.0, 10).work(100) == 7


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fedcore", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_the_own_dataset_is_a_benchmark(tmp_path):
    pytest.importorskip("typer")
    out = tmp_path / "job"
    result = command(
        "compare", "--benchmark", "examples/own_dataset.py", "--strategies", "fedavg,fedcore",
        "--rounds", 2, "--epochs", 2, "--stragglers", 30, "--no-plots", "--out", out,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    results = json.loads((out / "summary.json").read_text())["results"]
    assert {row["benchmark"] for row in results} == {"own_dataset"}
    assert all(row["final_test_accuracy"] > 0.8 for row in results)


def test_a_table_in_a_file_is_dealt_out_by_a_column(tmp_path):
    pytest.importorskip("typer")
    rows = [
        f"{town},{n},{n * n},{'even' if n % 2 == 0 else 'odd'}" for town in "ab" for n in range(9)
    ]
    (tmp_path / "table.csv").write_text("\n".join(["town,x,y,kind", *rows]))
    data = ("file=" + str(tmp_path / "table.csv"), "by=town", "label=kind", "train=1")
    options = [part for text in data for part in ("--data", text)]
    result = command("data", "stats", "examples/own_dataset.py", *options)
    assert result.returncode == 0, result.stderr
    here = next(line for line in result.stdout.splitlines() if "ours:" in line)
    assert here.split()[0] == "own_dataset"
    assert here.split()[-7:-4] == ["2", "18", "9"]
