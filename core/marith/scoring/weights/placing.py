"""Choose the device and the number type of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from transformers import PreTrainedConfig

from marith.errors import ModelError
from marith.request.placement_names import SPREAD, backend_name, device_name, dtype_name
from marith.scoring.weights.gguf.gguf_header import read_header
from marith.scoring.weights.locate import EMBEDDED, GGUF, local_file, require_on_hub

_WITHOUT_FLOAT64 = {"mps"}


@dataclass(frozen=True, slots=True)
class Placement:
    """The options for loading weights: device, number type and others. None means the default."""

    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    context_length: int | None = None
    backend: str | None = None
    max_memory: tuple[tuple[str, int | str], ...] | None = None

    def __post_init__(self) -> None:
        self._check_several()
        backend_name("backend", self.backend, ModelError)
        length = self.context_length
        if length is not None and (isinstance(length, bool) or not isinstance(length, int)):
            raise ModelError(f"context_length is a whole number of tokens, not {length!r:.60}")

    @property
    def is_spread(self) -> bool:
        """True if accelerate places the layers on several devices. Such layers stay as they are."""
        return self.device == SPREAD

    def _check_several(self) -> None:
        """Raise ModelError for options that exclude each other."""
        if self.max_memory is not None and not self.is_spread:
            raise ModelError("max_memory limits what device='auto' may take; add device='auto'")
        if not self.is_spread:
            return
        if self.backend is not None:
            raise ModelError(
                f"backend={self.backend!r} computes on one device; leave out backend or "
                f"device={self.device!r}"
            )
        if find_spec("accelerate") is None:
            raise ModelError("device='auto' needs `pip install accelerate`")

    def context(self, name: str, positions: int, usual: int | None = None) -> int:
        """Return the context length: `context_length`, or else `usual`, or else `positions`.

        Raises ModelError for a context of more than `positions` tokens, or of fewer than 2.
        """
        length = self.context_length
        if length is None:
            length = min(usual or positions, positions)
        if not 2 <= length <= positions:
            raise ModelError(f"the context of {name!r} holds {positions} tokens, not {length!r}")
        return length


def device_for(name: str | None) -> torch.device:
    """Return the named device, or by default a GPU if there is one, else the CPU.

    Raises ModelError for a device that this machine does not have.
    """
    device_name("device", name, ModelError)
    name = None if name == SPREAD else name
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, TypeError):
        raise ModelError(f"this torch has no device {name!r}") from None
    if device.type not in ("cpu", "cuda"):
        # torch also accepts the names of devices that the machine lacks.
        try:
            torch.empty(1, device=device)
        # Each backend of torch raises its own kind of error.
        except (RuntimeError, AssertionError, NotImplementedError):
            raise ModelError(f"this machine has no device {name!r}") from None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        present = ", ".join(["cpu", *(f"cuda:{i}" for i in range(count))])
        raise ModelError(f"this machine has no device {name!r}, only {present}")
    return device


def main_device(model: Any) -> torch.device:
    """Return the device on which a model takes tokens and returns logits.

    A model may be spread over several devices.
    """
    places = getattr(model, "hf_device_map", None)
    if not places:
        device: torch.device = model.device
        return device
    first = next((one for one in places.values() if str(one) not in ("cpu", "disk")), "cpu")
    return torch.device("cuda", first) if isinstance(first, int) else torch.device(str(first))


def composing_device(device: torch.device) -> torch.device:
    """Return the device on which log-probabilities are composed and sampled, in float64.

    This is the CPU for a device without float64.
    """
    return torch.device("cpu") if device.type in _WITHOUT_FLOAT64 else device


def dtype_for(name: str, where: str, device: torch.device, placement: Placement) -> torch.dtype:
    """Return the named number type, or by default the type that suits the device and checkpoint.

    On an accelerator the default is bfloat16. On a CPU it is float32, except for a checkpoint that
    is stored in bfloat16, on a processor with products of bfloat16: then each token reads half the
    bytes, and no digit of a weight is lost. Embedded models are always in float32 on a CPU, so that
    their answers are the same on all processors.
    """
    if placement.dtype is not None:
        return _named(placement.dtype)
    if device.type != "cpu":
        return torch.bfloat16
    if name in EMBEDDED or not multiplies_bfloat16():
        return torch.float32
    in_bfloat16 = _stored_in_bfloat16(where, placement.revision)
    return torch.bfloat16 if in_bfloat16 else torch.float32


def multiplies_bfloat16() -> bool:
    """Return True if this processor has products of bfloat16.

    With such products, reading half the bytes takes half the time.
    """
    has: Any = torch.cpu.get_capabilities()
    return any(has.get(name) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


def _stored_in_bfloat16(where: str, revision: str | None) -> bool:
    if where.lower().endswith(GGUF):
        try:
            return read_header(local_file(where, where, revision)).format == "BF16"
        # The loader reports the problem.
        except ModelError:
            return False
    # Without this check, transformers would try again for half a minute.
    require_on_hub(where, revision)
    try:
        stored: Any = PreTrainedConfig.get_config_dict(where, revision=revision)[0]
    # The file is invalid, and the loader reports the problem.
    except Exception:
        return False
    inside = stored.get("text_config") if isinstance(stored, dict) else None
    texts = [one for one in (stored, inside) if isinstance(one, dict)]
    # "torch_dtype" is the older name of the key.
    return any(one.get(key) == "bfloat16" for one in texts for key in ("dtype", "torch_dtype"))


def _named(name: str) -> torch.dtype:
    """Return the named type. Raises ModelError unless it is a floating-point type of torch."""
    dtype_name("dtype", name, ModelError)
    dtype = getattr(torch, str(name).removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise ModelError(f"this release of torch has no type {name!r}")
    return dtype
