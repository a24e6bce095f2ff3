"""A folder of images and a small residual network, with GroupNorm or with BatchNorm.

    python examples/image_folder.py --norm batch --folder PHOTOS

PHOTOS holds a folder for each class; without one, a folder of drawn images is made. With BatchNorm
``batch_norm="average"`` says what becomes of its running statistics.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import fedcore

SIZE = 16  # pixels


def made(folder: Path) -> Path:
    """Images of three classes, stripes across, stripes down and a spot, as .npy files."""
    draws = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    for label, name in enumerate(("across", "down", "spot")):
        (folder / name).mkdir()
        for number in range(120):
            phase, at = draws.uniform(0, 6), draws.integers(4, SIZE - 4, size=2)
            spot = np.exp(-((rows - at[0]) ** 2 + (columns - at[1]) ** 2) / 8)
            image = (np.sin(rows + phase), np.sin(columns + phase), spot)[label]
            noisy = image + 0.3 * draws.normal(size=(3, SIZE, SIZE))
            np.save(folder / name / f"{number}.npy", noisy.astype(np.float32))
    return folder


def read(file: Path) -> np.ndarray:
    """Pixels [3, SIZE, SIZE] of an image: an array, or what Pillow can open, cut and shrunk."""
    if file.suffix == ".npy":
        return np.asarray(np.load(file), np.float32)
    from PIL import Image

    pixels = np.asarray(Image.open(file).convert("RGB").resize((SIZE, SIZE)), np.float32)
    return pixels.transpose(2, 0, 1) / 255 - 0.5


class Block(nn.Module):
    """Two convolutions around which the input is added."""

    def __init__(self, width: int, norm: str) -> None:
        """Create the layers; ``norm`` is group or batch."""
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        norms = [nn.BatchNorm2d(width) if norm == "batch" else nn.GroupNorm(4, width) for _ in "12"]
        self.before, self.after = norms

    def forward(self, x: Tensor) -> Tensor:
        """Images of the same size."""
        inner = torch.relu(self.before(self.first(x)))
        return torch.relu(x + self.after(self.second(inner)))


def network(norm: str, classes: int) -> nn.Module:
    """A small residual network."""
    torch.manual_seed(0)
    start = [nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU()]
    blocks = [Block(16, norm), nn.MaxPool2d(2), Block(16, norm), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*start, *blocks, nn.Flatten(), nn.Linear(16, classes))


def main() -> None:
    """Read the folder, deal it out, train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--norm", choices=("group", "batch"), default="group")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.folder or made(Path(place))
        classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        files = [(file, n) for n, name in enumerate(classes) for file in (folder / name).iterdir()]
        images = np.stack([read(file) for file, _ in files])
    labels = np.array([label for _, label in files])
    order = np.random.default_rng(1).permutation(len(labels))
    held_out, rest = np.split(order, [len(order) // 5])
    shares = fedcore.partition(labels[rest], 8, how="dirichlet", alpha=1.0)
    clients = [(images[rest][rows], labels[rest][rows]) for rows in shares]
    history = fedcore.simulate(
        clients,
        network(given.norm, len(classes)),
        test=(images[held_out], labels[held_out]),
        batch_norm="average",
        metrics=["f1"],
        strategy="fedcore",
        rounds=given.rounds,
        epochs=2,
        clients_per_round=4,
        learning_rate=0.05,
    )
    last = history.rounds[-1]
    print(f"{given.norm} norm: accuracy {last.test_accuracy:.1%}, F1 {last.metrics['f1']:.3f}")


if __name__ == "__main__":
    main()
