"""A small comparison, and a headless Chromium to look at its page.

Chromium is spoken to over its pipe: one JSON message after another, each ended by NUL.
"""

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fedcore.cli.grid import run_grid
from fedcore.config import Experiment

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe")
OPTIONS += ("--no-first-run", "--disable-background-networking", "--disable-component-update")
OPTIONS += ("--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars", "--disable-sync")
PATIENCE = 60.0  # seconds for an answer


def executable() -> str:
    """Where Chromium is, or a skip that says why."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium here: 'apt-get install chromium' brings one")
    return found


class Browser:
    """One page, and every request that it makes."""

    def __init__(self, profile: Path) -> None:
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        # The pipe is what it finds as files 3 and 4.
        shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        command = [executable(), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(to_read, to_write), **quiet
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number = b"", 0
        self.events: list[dict] = []
        self._session = None
        (target,) = [
            one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page"
        ]
        attached = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters):
        """The answer to a command; what happens meanwhile is kept in ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(PATIENCE)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self, patience: float):
        end = time.monotonic() + patience
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            read = os.read(self._in, 1 << 20)
            assert read, "Chromium has ended"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        found = json.loads(message)
        if "method" in found:
            self.events.append(found)
        return found

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file and wait until it is there."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next(PATIENCE)

    def run(self, script: str):
        """The value of an expression on the page; a promise is waited for."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.ask("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """Every address that was asked for since the page was opened."""
        kind = "Network.requestWillBeSent"
        sent = (event for event in self.events if event["method"] == kind)
        return [event["params"]["request"]["url"] for event in sent]

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the page's policy refused."""
        errors = (e["params"] for e in self.events if e["method"] == "Runtime.exceptionThrown")
        logged = (e["params"]["entry"] for e in self.events if e["method"] == "Log.entryAdded")
        return [str(one) for one in (*errors, *logged)]

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(Exception):
            self._session = None
            self.ask("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser for all tests, or a skip."""
    executable()
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


SMALL = Experiment(
    strategies=("fedavg", "fedavg-ds", "fedprox", "fedcore"),
    rounds=12,
    learning_rate=0.001,
    stragglers=(10.0, 30.0),
    seed=(0, 1),
    data={"clients": 12, "dimension": 5},
)


@pytest.fixture(scope="session")
def a_job(tmp_path_factory):
    """The folder of a small comparison: four strategies, two levels, two seeds."""
    folder = tmp_path_factory.mktemp("jobs") / "small"
    run_grid(SMALL, folder)
    return folder
