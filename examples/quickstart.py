"""Your clients, your model, a deadline that everybody meets: ten lines.

python examples/quickstart.py
"""

import torch
from torch import nn

import fedcore

torch.manual_seed(0)
teacher = torch.randn(20, 4)
inputs = [torch.randn(size, 20) for size in (200, 30, 450, 75, 150, 40, 800, 60)]
clients = [(x, (x @ teacher).argmax(1)) for x in inputs]
test_x = torch.randn(1000, 20)
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))

history = fedcore.simulate(
    clients,
    model,
    test=(test_x, (test_x @ teacher).argmax(1)),
    strategy="fedcore",
    stragglers=30,
    rounds=10,
    epochs=5,
    clients_per_round=4,
    learning_rate=0.1,
)
print(f"test accuracy {history.final_test_accuracy:.3f}")
print(f"longest round {history.longest_round:.2f} deadlines, late: {history.deadline_misses}")
