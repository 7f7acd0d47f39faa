"""Where a classifier is trained."""

from __future__ import annotations

import torch

from marith.errors import ModelError


def device_of(name: str | None) -> torch.device:
    """The device of this name, or the fastest there is. Raises ModelError."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError):  # no device name, or an absent device
        raise ModelError(f"this machine has no device {name!r}; write 'cpu' or 'cuda'") from None
    return device
