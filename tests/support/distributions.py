"""Compare distributions as probabilities, of which some are zero."""

from __future__ import annotations

import torch
from torch import Tensor


def close(first: Tensor, second: Tensor, tolerance: float = 1e-5) -> None:
    """Require the same impossible tokens, and nearly the same probabilities."""
    assert not bool(first.isnan().any() | second.isnan().any())
    torch.testing.assert_close(first.exp(), second.exp(), atol=tolerance, rtol=1e-4)
