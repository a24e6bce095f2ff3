"""examples/script.py on 50 clients of unequal data and speed, three in ten of them slow."""

import torch
from torch import nn

import fedcore

torch.manual_seed(0)
labels = torch.randint(10, (6000,))
inputs = torch.randn(10, 32)[labels] + torch.randn(6000, 32)
held_out = inputs[5000:], labels[5000:]

model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

clients = [(inputs[part], labels[part]) for part in fedcore.partition(labels[:5000], 50)]
history = fedcore.simulate(clients, model, rounds=10, epochs=5, batch_size=32, learning_rate=0.03)
model.load_state_dict(history.params)

with torch.no_grad():
    right = (model(held_out[0]).argmax(dim=1) == held_out[1]).float().mean()
print(f"test accuracy {right:.3f}")
