"""Fashion-MNIST, dealt out like MNIST: two kinds of clothing per client.

Xiao et al. 2017: 70,000 images in the format and the sizes of MNIST. It is not in the paper. It
has as many images of each kind, so no seed had to be searched for.
"""

from functools import partial

from fedcore.datasets import mnist
from fedcore.sources import idx as _idx

SEED = 0

# The raw checksums are of what the published archives unpack to.
SOURCE = _idx.source(
    "fashion-mnist",
    "f4a8712d7a061bf5bd6d2ca38dc4d50a 9018921c3c673c538a1fc5bad174d6f9",
    "8181f5470baa50b63fa0f6fddb340f0a 15d484375f8d13e6eb1aabb0c3f46965",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
)

HYPERPARAMETERS = {**mnist.HYPERPARAMETERS, "data_seed": SEED}
load = partial(_idx.load, SOURCE, seed=SEED)
