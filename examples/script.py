"""An ordinary training script; examples/federated_script.py is the same one, federated."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.randint(10, (6000,))
inputs = torch.randn(10, 32)[labels] + torch.randn(6000, 32)
held_out = inputs[5000:], labels[5000:]

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

loader = DataLoader(TensorDataset(inputs[:5000], labels[:5000]), batch_size=32, shuffle=True)
optimiser = torch.optim.SGD(model.parameters(), lr=0.03)
for _ in range(10):
    for x, y in loader:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

with torch.no_grad():
    right = (model(held_out[0]).argmax(dim=1) == held_out[1]).float().mean()
print(f"test accuracy {right:.3f}")
