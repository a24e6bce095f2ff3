"""The suite on many processes where pytest is all there is, as on accelerator machines.

    python tests/in_parallel.py [--processes 16] [--seconds 600] [pytest's own arguments]

Every process collects all tests and takes the next few that nobody has taken, those of executors,
models and contracts first. Ends with what failed, and with how many were not reached in time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = ("tests/contracts", "tests/client", "tests/models", "tests/cli", "tests/examples")
FEW = 10  # tests that are taken together; those of one file may share what was made for it


class Queue:
    """A pytest plugin: runs what it can claim, and writes a line per result."""

    def __init__(self, folder: Path, end: float) -> None:
        self.folder, self.end = folder, end

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        files: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            files.setdefault(item.nodeid.split("::")[0], []).append(item)
        self.write(collected=len(session.items))
        for file, items in sorted(files.items(), key=lambda one: not one[0].startswith(LONGEST)):
            for start in range(0, len(items), FEW):
                if time.time() < self.end and self.claim(f"{file}-{start}".replace("/", "-")):
                    some = items[start : start + FEW]
                    for item, following in zip(some, [*some[1:], None], strict=True):
                        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return True

    def claim(self, name: str) -> bool:
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.write(test=report.nodeid, outcome=report.outcome)

    def write(self, **line: object) -> None:
        with (self.folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=600.0, help="take no test after them")
    parser.add_argument("--in", dest="folder", type=Path, help="for its own processes")
    asked, rest = parser.parse_known_args()
    end = time.time() + asked.seconds
    if asked.folder is not None:
        given = [*rest, "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
        return int(pytest.main(given, plugins=[Queue(asked.folder, end)]))
    with tempfile.TemporaryDirectory() as made:
        # -P: tests/datasets is not the package `datasets`, which a test asks for.
        command = [sys.executable, "-P", __file__, "--in", made]
        command += ["--seconds", str(asked.seconds), *rest]
        logs = [Path(made) / f"{n}.log" for n in range(asked.processes)]
        env = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        started = [
            subprocess.Popen(command, cwd=ROOT, env=env, stdout=log.open("w"), stderr=2)
            for log in logs
        ]
        codes = [process.wait() for process in started]
        lines = [json.loads(x) for p in Path(made).glob("*.jsonl") for x in p.open()]
        for log, code in zip(logs, codes, strict=True):
            if code:
                print(log.read_text())
    known: dict[str, str] = {}
    for line in (line for line in lines if "test" in line):
        if known.get(line["test"]) != "failed":
            known[line["test"]] = line["outcome"]
    count = max((line.get("collected", 0) for line in lines), default=0)
    told = {o: [*known.values()].count(o) for o in ("passed", "failed", "skipped")}
    for test in sorted(test for test, outcome in known.items() if outcome == "failed"):
        print("FAILED", test)
    print(f"{', '.join(f'{n} {o}' for o, n in told.items())}; {count - len(known)} not reached")
    return 0 if codes and not any(codes) and len(known) == count else 1


if __name__ == "__main__":
    sys.exit(main())
