"""Tabular regression: clients with tables of their own, a squared loss, R2 on held-out rows."""

import numpy as np
from torch import nn

import fedcore

draws = np.random.default_rng(0)
slopes = draws.normal(size=10)


def table(rows: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns and a number to predict, of a client whose columns have a mean of their own."""
    columns = draws.normal(shift, 1.0, size=(rows, 10))
    target = columns @ slopes + np.sin(2 * columns[:, 0]) + 0.1 * draws.normal(size=rows)
    return columns.astype(np.float32), target.astype(np.float32)


clients = [table(int(rows), draws.normal()) for rows in draws.integers(30, 400, size=20)]
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))

history = fedcore.simulate(
    clients,
    model,
    test=table(1000, 0.0),
    loss="mse",  # or "huber", or any function (outputs, targets) -> [batch]
    metrics=["r2", "mae"],
    strategy="fedcore",
    rounds=20,
    epochs=5,
    learning_rate=0.01,
)
last = history.rounds[-1]
print(f"loss {last.test_loss:.3f}, R2 {last.metrics['r2']:.3f}, error {last.metrics['mae']:.3f}")
print(f"longest round: {history.longest_round:.2f} deadlines")

# A tenth of one table that stands for all of it, for the model that was trained.
model.load_state_dict(dict(history.params))
coreset = fedcore.coreset_for(model, clients[0], 0.1, loss="mse")
print(f"{len(coreset.indices)} rows of {len(clients[0][0])} stand for all")
