"""Parameters of many clients stacked along a leading axis K, and the fast forms a model may bring.

A model's class may have methods that are a ``Form``; they hold for that very class, since one that
is made of it may compute something else:

* ``stacked_form``: its forward pass over K clients, where ``vmap`` has no rule for it or is slow.
* ``single_form``: the same for K = 1 on a CPU, where it beats the module itself.
"""

import functools
import logging
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

log = logging.getLogger(__name__)
Stack = Mapping[str, Tensor]

# A forward pass over clients. It takes parameters [K, ...], inputs [K, B, ...] and, where the
# last layer is watched, zeros [K, B, C] that are added to its output: their gradient is dL/da.
# It gives scores [K, B, C] and what entered the last layer, z [K, B, d]. Of one client alone,
# the same without the axis K.
Zeros = Tensor | None
Passed = tuple[Tensor, Tensor | None]
Form = Callable[[Stack, Tensor, Zeros], Passed]


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """a_k = z_k W_kᵀ + b_k: [K, n, C] of inputs [K, n, d], weights [K, C, d], biases [K, C].

    With the weight as the left factor, its gradient comes out in the weight's own memory order.
    """
    return torch.baddbmm(bias[:, :, None], weight, inputs.transpose(1, 2)).transpose(1, 2)


@functools.cache
def kernels_work(model: str, trial: Callable[[torch.device], None], device: torch.device) -> bool:
    """Whether a model's kernels for a GPU pass a ``trial``; where they fail, say so once."""
    try:
        with torch.enable_grad():
            trial(device)
    except Exception as error:  # no Triton, or a compiler that fails in one of many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        log.warning("the %s takes its plain form: %s", model, reason)
        return False
    return True
