"""MNIST, two digits per client: 1,000 clients whose sizes follow a power law (FedProx).

Section 6.1 of the paper; its Table 1 has 69,035 samples, mean 69, standard deviation 106. The
default seed 7992 was **searched for** among 0 to 19,999: of the draws with sigma 2.0 and 69,035
samples, its standard deviation in training data (144.67) is the nearest to that of FedML's copy
of the data (144.63), which the authors used. In all it is 160.74. The paper's 106 was not seen in
6,000 draws with sigma 2.0; ``sigma=1.7`` with seed 17112, also searched for, comes to 105.83.
"""

from functools import partial
from typing import Any

from fedcore.sources import idx as _idx

PAPER = {"mnist": (1_000, 69_035, 69, 106)}
NOTE = "Seed 7992 was searched for: 69,035 samples. The paper's std of 106 needs sigma=1.7."
SEED = 7992

SOURCE = _idx.source(
    "mnist",
    "6bbc9ace898e44ae57da46a324031adb a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea 27ae3e4e09519cfbb04c329615203637",
    # The original page serves no files any more; these are the mirrors that libraries use.
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)

# Appendix B.1; the authors' repository has the same for MNIST, so that presets do not differ.
HYPERPARAMETERS: dict[str, Any] = {"model": "cnn", "rounds": 100, "epochs": 10, "batch_size": 8}
HYPERPARAMETERS |= {"learning_rate": 0.03, "clients_per_round": 100, "fedprox_mu": 0.1}
HYPERPARAMETERS["data_seed"] = SEED

load = partial(_idx.load, SOURCE, seed=SEED)
