"""Coresets outside federated learning: arrays, a torch model, a DataLoader, scikit-learn."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fedcore

torch.manual_seed(0)
draws = np.random.default_rng(0)
centres = 4 * draws.normal(size=(5, 20))
labels = draws.integers(5, size=2000)
inputs = (centres[labels] + draws.normal(size=(2000, 20))).astype(np.float32)

# From arrays: a tenth of the rows, each with the number of rows that it stands for.
found = fedcore.select_coreset(inputs, 0.1)
print(f"{len(found.indices)} of {len(inputs)} rows, weights sum to {found.weights.sum():.0f}")

# For a model as it stands: by the gradients of its last layer, in one forward pass.
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))
chosen = fedcore.coreset_for(model, (inputs, labels), 0.1)
print(f"error of the whole gradient: {chosen.gradient_error:.3f}")

# Train on it with a loop that knows nothing of weights: samples are drawn by them.
dataset = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    for x, y in DataLoader(dataset, batch_size=20, sampler=chosen.sampler()):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
with torch.no_grad():
    scores = model(dataset.tensors[0])
right = (scores.argmax(dim=1) == dataset.tensors[1]).float().mean()
print(f"trained on {len(chosen.subset(dataset))} samples, right on {right:.1%} of all")

# As an estimator of scikit-learn (pip install '.[sklearn]').
selector = fedcore.CoresetSelector(budget=0.1).fit(inputs)
print(f"first rows: {selector.sample_indices_[:5]}, weights {selector.sample_weight_[:5]}")
