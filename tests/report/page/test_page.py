"""The page as a file: what it needs, how large it is, how long it takes, what of it is not ours."""

import hashlib
import json
import re
import subprocess
import sys
import time
from importlib import resources

from fedcore.records import ClientRecord, Ending, RoundRecord, RunKey
from fedcore.report import page
from fedcore.report.page import write_page
from fedcore.report.page.jobs import Job, read_jobs
from fedcore.report.summary import summary
from fedcore.types import Way

CHART = (
    "87364cc2b2a76a6684929e7d6b80b18a897794db38400caff1fcf1791c6925d2"  # of npm's chart.js 4.6.1
)


def test_the_library_is_the_one_that_was_published():
    file = resources.files(page) / "chart.umd.min.js"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == CHART
    assert "MIT License" in (resources.files(page) / "chart.LICENSE.md").read_text()


def test_it_needs_torch_and_numpy_alone(a_job, tmp_path):
    script = """
import sys
for name in ("rich", "typer", "matplotlib", "numba", "threadpoolctl", "flwr"):
    sys.modules[name] = None
from pathlib import Path
from fedcore.report.page import write_page
from fedcore.report.page.jobs import read_jobs
write_page(read_jobs([Path(sys.argv[1])]), Path(sys.argv[2]))
"""
    subprocess.run([sys.executable, "-c", script, a_job, tmp_path], check=True)
    assert (tmp_path / "report.html").stat().st_size > 200_000


def test_nothing_is_asked_of_anybody_and_every_place_is_filled(a_job, tmp_path):
    write_page(read_jobs([a_job]), tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "default-src 'none'" in text
    own = text.replace((resources.files(page) / "chart.umd.min.js").read_text(), "")
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", own)
    assert not re.findall(r"\$[a-z_]+\b", own.split("<script>")[0].split('id="data"')[0])
    # Every anchor that a number leads to is there.
    wanted = set(re.findall(r'href="#([^"]+)"', own))
    assert wanted <= set(re.findall(r' id="([^"]+)"', own))
    assert any(name.startswith("run-") for name in wanted)


def test_data_are_json_that_ends_no_script(a_job, tmp_path):
    write_page(read_jobs([a_job]), tmp_path)
    text = (tmp_path / "report.html").read_text()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert not set("<>&") & set(data)
    content = json.loads(data)
    assert list(content["strategies"].values()) == ["FedAvg", "FedAvg-DS", "FedProx", "FedCore"]
    assert [panel["title"] for panel in content["panels"]] == [
        "Synthetic (1, 1), 10 % stragglers",
        "Synthetic (1, 1), 30 % stragglers",
    ]


def test_a_job_of_the_papers_size_takes_less_than_a_second_and_5_mb(tmp_path):
    """MNIST: 100 rounds of 100 clients, four strategies at two shares of stragglers."""
    names = ("fedavg", "fedavg-ds", "fedprox", "fedcore")
    clients = tuple(
        ClientRecord(n, Way.FULL, 1, 70, 0.01 * n + 0.1, None, gradient_error=0.1)
        for n in range(100)
    )
    measured = (0.123456789, 0.912345678, 0.123456789, 0.912345678, 1.0)
    ending = Ending(1.0, 100, 1000, 300, 0.5, 0.5)
    runs = {
        RunKey("mnist", name, level, 0): [
            RoundRecord(n, 1.0, 1.0, clients, 0, *measured, ending=ending if n == 100 else None)
            for n in range(1, 101)
        ]
        for level in (10.0, 30.0)
        for name in names
    }
    options = {"benchmark": "mnist", "preset": "paper", "epochs": 10, "batch_size": 8}
    job = Job(tmp_path, summary(runs, options), runs)
    taken = []
    for _ in range(3):
        began = time.process_time()
        write_page([job], tmp_path)
        taken.append(time.process_time() - began)
    assert min(taken) < 1.0
    assert (tmp_path / "report.html").stat().st_size < 5e6
