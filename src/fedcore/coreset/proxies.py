"""What stands in for a sample's gradient when distances are measured (section 4.3).

* ``input``: x_j itself, d~_jk = ||x_j - x_k||, for convex models. It does not change with the
  model, so a client's coreset is built once and kept (``STATIC``).
* ``last-layer-input``: dL_j/dz_j = W' dL_j/da_j, the d^ of the paper, z the input and a the
  output of the last linear layer; collected during the first epoch's own steps.
* ``logits``: dL_j/da_j, the residual.
"""

from __future__ import annotations

STATIC = "input"
LAST_LAYER_INPUT = "last-layer-input"
LOGITS = "logits"
PROXIES = (STATIC, LAST_LAYER_INPUT, LOGITS)
