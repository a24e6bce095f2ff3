"""One virtual environment per peer, made once, apart from ours: peers are never dependencies."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".peers"
INSTALL_SECONDS = 900

# The torch of our own constraints: all run on the same kernels, and no CUDA build is pulled in.
REQUIREMENTS = {
    "flower": ("flwr[simulation]==1.41.0", "torch==2.13.0"),
    "pfl": ("pfl[pytorch]==0.6.0", "torch==2.13.0"),
    # Of benchmarks.lab_peers
    "appfl": ("appfl==1.12.0", "torch==2.13.0"),
    "flgo": ("flgo==0.4.4", "torch==2.13.0"),
    "flsim": ("flsim==0.1.0", "torch==2.13.0"),
}
SHOWN = ("flwr", "ray", "pfl", "appfl", "flgo", "flsim", "torch", "numpy")


class PeerUnavailable(Exception):
    """A peer that cannot be installed or that failed; the message is one sentence."""


def interpreter_of(peer: str) -> Path:
    """Its Python, whether it is there or not."""
    return CACHE / peer / "bin" / "python"


def ensure(peer: str) -> dict[str, str]:
    """Install a peer unless it is there; gives the versions that matter."""
    wanted = "\n".join(REQUIREMENTS[peer])
    ready = CACHE / peer / ".ready"
    if not ready.exists() or ready.read_text() != wanted:
        _run([sys.executable, "-m", "venv", "--clear", str(CACHE / peer)])
        _pip(peer, "install", "--quiet", *REQUIREMENTS[peer])
        ready.write_text(wanted)
    listed = json.loads(_pip(peer, "list", "--format", "json"))
    return {item["name"]: item["version"] for item in listed if item["name"] in SHOWN}


def _pip(peer: str, *arguments: str) -> str:
    pip = ("-m", "pip", "--disable-pip-version-check")
    return _run([str(interpreter_of(peer)), *pip, *arguments])


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"cannot be installed: {reason_in(str(error))}") from None
    if done.returncode:
        raise PeerUnavailable(f"cannot be installed: {reason_in(done.stderr)}")
    return done.stdout


def reason_in(output: str) -> str:
    r"""The line of an output that says what went wrong, without paths and addresses.

    >>> reason_in("ERROR: no wheel at https://host/simple\n\nhint: try again")
    'ERROR: no wheel at ...'
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|exception", line, re.IGNORECASE)]
    line = (telling or lines or ["no message"])[-1]
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return re.sub(r"(\w+://|/)[^\s'\",)]+", "...", line)[:200]
