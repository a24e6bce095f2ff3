"""A SuperLink and its SuperNodes as processes of their own; every one is ended by its id.

Certificates are made by openssl, node keys by ssh-keygen, as docs/deployment.md does by hand.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from ssl import create_default_context
from types import TracebackType
from typing import Any, Self

SCRIPTS = Path(sys.executable).parent
NAME = "cluster"  # of the connection in Flower's configuration
MARK = "FEDCORE_CLUSTER"  # an environment variable by which its processes are known
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@dataclass
class Cluster:
    """Processes in a folder; ``with Cluster(...) as cluster`` ends all of them, come what may."""

    folder: Path
    nodes: Sequence[str]  # a node's configuration each, e.g. "partition-id=0 slow=4"
    secure: bool = True  # TLS and node authentication
    environment: Mapping[str, str] = field(default_factory=dict)
    node_environment: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    absent: Sequence[int] = ()  # nodes that are not started with the others
    database: str | None = None  # by which registrations survive the SuperLink
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, init=False)
    port: int = field(default_factory=free_port, init=False)

    def __enter__(self) -> Self:
        """Bring everything up; what cannot be started is ended again."""
        try:
            self._write_configuration()
            self.start_superlink()
            if self.secure:
                for number in range(len(self.nodes)):
                    self.flwr("supernode", "register", f"node{number}.key.pub", NAME)
            present = [number for number in range(len(self.nodes)) if number not in self.absent]
            for number in present:
                self.start_node(number)
            for number in present:
                self.wait_for_log(f"node{number}", r"SuperNode ID: (\d+)", 60)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process."""
        self.stop()

    @property
    def own_environment(self) -> dict[str, str]:
        """What all processes are started with."""
        own = {"FLWR_HOME": str(self.folder / "home"), MARK: str(self.folder)}
        own["PATH"] = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"  # Flower starts its own commands
        return {**os.environ, **QUIET, **own, **self.environment}

    def _write_configuration(self) -> None:
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        lines = [f"[superlink.{NAME}]", f'address = "127.0.0.1:{self.port}"']
        if self.secure:
            self._make_keys()
            lines.append(f'root-certificates = "{self.folder / "ca.crt"}"')
        else:
            lines.append("insecure = true")
        (home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _make_keys(self) -> None:
        san = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        ca = ("-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=fedcore-ca")
        self._call("openssl", "req", "-x509", "-days", "2", *curve, *ca)
        server = ("-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
        self._call("openssl", "req", *curve, *server, "-addext", san)
        signed = (
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-copy_extensions",
            "copy",
        )
        files = ("-in", "server.csr", "-out", "server.crt", "-days", "2")
        self._call("openssl", "x509", "-req", *files, *signed)
        for number in range(len(self.nodes)):
            key = ("-t", "ecdsa", "-b", "384", "-N", "", "-f", f"node{number}.key")
            self._call("ssh-keygen", "-q", *key)

    def _call(self, *command: str) -> None:
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)

    def start_superlink(self) -> None:
        """Start the server process; a second start after a kill takes the same port."""
        security = ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.crt"]
        security += ("--ssl-keyfile", "server.key", "--enable-supernode-auth")
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        command += [*(security if self.secure else ("--insecure",))]
        command += ["--database", self.database] if self.database else []
        command += ["--disable-runtime-dependency-installation"]
        self._start("superlink", command, {})
        context = create_default_context(cafile=self.folder / "ca.crt") if self.secure else None
        scheme = "https" if self.secure else "http"
        until = time.monotonic() + 60
        while True:
            try:
                where = f"{scheme}://127.0.0.1:{self.port}/health"
                with urllib.request.urlopen(where, context=context, timeout=2):
                    return
            except OSError:
                if time.monotonic() > until or self.processes["superlink"].poll() is not None:
                    raise RuntimeError(self.log("superlink")[-2000:]) from None
                time.sleep(0.1)

    def start_node(self, number: int) -> None:
        """Start a SuperNode; its client processes are children of it."""
        security = ["--root-certificates", "ca.crt"]
        security += ("--auth-supernode-private-key", f"node{number}.key")
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{self.port}"]
        command += ["--port", str(free_port()), "--node-config", self.nodes[number]]
        command += [*(security if self.secure else ("--insecure",))]
        self._start(f"node{number}", command, self.node_environment.get(number, {}))

    def _start(self, name: str, command: Sequence[str], more: Mapping[str, str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [SCRIPTS / command[0], *command[1:]],
                cwd=self.folder,
                env={**self.own_environment, **more},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for who started the cluster
            )

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to one process alone, as a crash would; its children may live on."""
        self.processes[name].send_signal(number)
        if number == signal.SIGKILL:
            self.processes[name].wait(timeout=30)

    def members(self, pattern: str = "") -> list[int]:
        """Ids of all processes of this cluster whose command line has ``pattern`` in it.

        Flower detaches those that it starts, so they are found by what they inherit.
        """
        mark = f"{MARK}={self.folder}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                inherited = (process / "environ").read_bytes().split(b"\0")
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it has ended, or is not ours
                continue
            if mark in inherited and re.search(pattern, command):
                found.append(int(process.name))
        return found

    def stop(self) -> None:
        """End everything that was started, and whatever that started."""
        while left := self.members():
            for one in left:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            for process in self.processes.values():
                process.wait(timeout=30)
            time.sleep(0.05)

    def log(self, name: str) -> str:
        """What a process printed so far."""
        text = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return re.sub(r"\x1b\[[0-9;]*m", "", text)

    def wait_for_log(self, name: str, pattern: str, seconds: float) -> re.Match[str]:
        """Wait until a process printed a line; whoever ends before that is shown."""
        until = time.monotonic() + seconds
        while True:
            if found := re.search(pattern, self.log(name)):
                return found
            if time.monotonic() > until or self.processes[name].poll() is not None:
                raise RuntimeError(f"{name} never printed {pattern!r}:\n{self.log(name)[-3000:]}")
            time.sleep(0.1)

    def flwr(self, *arguments: str) -> Any:
        """What a command of Flower's says, as JSON."""
        command = [SCRIPTS / "flwr", *arguments, "--format", "json"]
        done = self._ask(command)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise RuntimeError((done.stdout + done.stderr).decode()[-2000:]) from None
        if not answer.get("success", True):
            raise RuntimeError(str(answer))
        return answer

    def _ask(self, command: Sequence[object]) -> subprocess.CompletedProcess[bytes]:
        own = self.own_environment
        return subprocess.run(
            [str(part) for part in command],
            check=False,
            cwd=self.folder,
            env=own,
            capture_output=True,
            timeout=60,
        )

    def run(self, app: Path, **config: str | float) -> int:
        """Start a run of an app; gives its id."""
        pairs = (f"{k.replace('_', '-')}={json.dumps(v)}" for k, v in config.items())
        answer = self.flwr("run", str(app), NAME, "-c", " ".join(pairs))
        return int(answer["run-id"])

    def finish(self, run: int, seconds: float) -> str:
        """Wait for a run's end; gives what its ServerApp printed."""
        self.wait_for_log("superlink", rf"Finished task \d+ of run {run}\b", seconds)
        return self.output(run)

    def output(self, run: int) -> str:
        """What a run's ServerApp printed so far."""
        command = [SCRIPTS / "flwr", "log", str(run), NAME, "--show"]
        done = self._ask(command)
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout.decode())
