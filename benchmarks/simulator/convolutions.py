"""Convolutions of many clients on a GPU: products of written patches against the kernels.

    python -m benchmarks.simulator.convolutions [--out FILE]

Microseconds of a forward and a backward pass, captured as a graph, for both convolutions of the CNN
at batch 8; and by how much gradients differ, as a share of their norm.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

import torch  # noqa: E402

from benchmarks.simulator.machine import describe  # noqa: E402
from fedcore.models.cnn import convolution  # noqa: E402

CLIENTS = (100, 13, 1)
LAYERS = ((28, 1, 32), (14, 32, 64))  # pixels a side, channels, maps
REPLAYS = 20


def microseconds(run: Callable[[], Any]) -> float:
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(4):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / REPLAYS * 1e6


def measure(clients: int, side: int, channels: int, maps: int) -> dict[str, Any]:
    """One layer: of the first, nobody asks for slopes of its images."""
    leaves = [
        torch.randn(clients, 8, side, side, channels, device="cuda"),
        torch.randn(clients, maps, channels, 5, 5, device="cuda"),
        torch.randn(clients, maps, device="cuda"),
    ]
    asked = [leaf.requires_grad_() for leaf in leaves[channels == 1 :]]
    row: dict[str, Any] = {"clients": clients, "side": side, "channels": channels, "maps": maps}
    found = []
    for name, way in (("plain", convolution.plain), ("kernels", convolution.Fused.apply)):

        def run(way: Any = way) -> Any:
            images = way(*leaves)
            return torch.autograd.grad(images, asked, grad_outputs=images.detach())

        found.append(run())
        row[f"{name} us"] = round(microseconds(run))
    pairs = zip(*found, strict=True)
    row["difference"] = max(((a - b).norm() / a.norm()).item() for a, b in pairs)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out or ROOT / "benchmarks" / "results" / "convolutions-cuda.json"
    rows = [measure(clients, *layer) for clients in CLIENTS for layer in LAYERS]
    content = {"machine": describe(torch.device("cuda")), "rows": rows}
    out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
