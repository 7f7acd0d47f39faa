"""Read LoRA adapters: only safetensors, only plain LoRA, and only shapes that fit the model."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import huggingface_hub
import safetensors.torch
from huggingface_hub.errors import HfHubHTTPError
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from marith.errors import FormulaError, ModelError, shown
from marith.formula.patterns import compile_pattern
from marith.request.checks import finite
from marith.scoring.weights.locate import ADAPTER_CONFIG as CONFIG
from marith.scoring.weights.locate import ADAPTERS, HUB_ID, WEIGHTS, require_on_hub
from marith.scoring.weights.shared_weights import nbytes

TENSORS = "adapter_model.safetensors"
_KEY = re.compile(r"base_model\.model\.(?P<layer>.+)\.lora_(?P<part>[AB])\.weight")
# A plain LoRA may have these fields. Most describe its training, whose result is in the tensors.
_KNOWN = {
    "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "inference_mode",
    "fan_in_fan_out", "init_lora_weights", "target_modules", "exclude_modules",
    "layers_to_transform", "layers_pattern", "auto_mapping", "runtime_config", "loftq_config",
    "eva_config", "corda_config", "lora_ga_config", "velora_config", "lora_dropout",
}  # fmt: skip
# With any other value of `init_lora_weights`, training began from a changed base model.
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """The update of a linear layer by an adapter: the layer adds (x · downᵀ) · up to its output.

    `down` is [rank, inputs], and `up` is [rank, outputs], already scaled.
    """

    down: Tensor
    up: Tensor


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Adapter:
    """The changes of a term to its model: the updates of a LoRA, and vectors added after layers.

    `updates` are by the name of a linear layer, and `shifts` by the name of a decoder layer: a
    shift is added to the hidden states after its layer. If an adapter has both, `base` is the LoRA
    alone. With `positions="answer"`, shifts are added from the last token of the prompt on.

    Two adapters are equal if their names and digests are equal.
    """

    name: str
    digest: str
    config: Mapping[str, Any] = field(compare=False, repr=False)
    updates: Mapping[str, Update] = field(compare=False, repr=False)
    shifts: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)
    base: Adapter | None = field(default=None, compare=False, repr=False)
    positions: Literal["all", "answer"] = field(default="all", compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """The key of cached keys and values that were computed with the adapter."""
        return self.name, self.digest

    @property
    def lora(self) -> Adapter | None:
        """The LoRA alone, or None if the adapter has only vectors."""
        return self.base if self.base is not None or not self.updates else self

    @property
    def nbytes(self) -> int:
        """The number of bytes of the updates and of the shifts."""
        updates = sum(nbytes((update.down, update.up)) for update in self.updates.values())
        return updates + nbytes(self.shifts.values())

    @property
    def rank(self) -> int:
        """The largest rank of the updates; 0 without updates."""
        return max((len(update.down) for update in self.updates.values()), default=0)

    def shifted_from(self, prompt: int) -> int:
        """Return the position from which shifts are added, in a text with `prompt` prompt tokens.

        The log-probabilities of the first token of the answer are read at the prompt's last token.
        """
        return max(0, prompt - 1) if self.positions == "answer" else 0


def read(name: str, model: Any) -> Adapter:
    """Return the adapter that `name` names, checked against `model`.

    `name` is an embedded name, a directory or a hub id. `model` is not changed. Raises ModelError
    if the adapter cannot be found or read, is not a plain LoRA, or does not fit.
    """
    folder = _locate(name)
    try:
        raw_config, raw = (folder / CONFIG).read_bytes(), (folder / TENSORS).read_bytes()
        config = json.loads(raw_config)
        tensors = safetensors.torch.load(raw)
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"cannot read the adapter {name!r}: {first}") from error
    _check_config(name, config)
    pairs: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        match = _KEY.fullmatch(key)
        if not match:
            _refuse(name, f"holds {key!r}, which a plain LoRA does not have")
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            _refuse(name, f"has a value that is not a finite number in {key!r}")
        pairs.setdefault(match["layer"], {})[match["part"]] = tensor.float()
    if not pairs:
        _refuse(name, "holds no tensors")
    updates = {layer: _update(name, layer, pair, config, model) for layer, pair in pairs.items()}
    return Adapter(name, hashlib.sha256(raw_config + raw).hexdigest(), config, updates)


def _locate(name: str) -> Path:
    if not isinstance(name, str) or not name:
        raise ModelError(f"an adapter is a name, a directory or a hub id, not {name!r}")
    path = WEIGHTS / ADAPTERS[name] if name in ADAPTERS else Path(name).expanduser()
    if not path.is_dir():
        if not HUB_ID.fullmatch(name):
            raise ModelError(f"there is no adapter directory {name!r}")
        path = _fetched(name)
    if not (path / CONFIG).is_file():
        raise ModelError(f"{name!r} holds no adapter: it has no {CONFIG}")
    if not (path / TENSORS).is_file():
        raise ModelError(f"the adapter {name!r} holds no weights as safetensors ({TENSORS})")
    return path


def _fetched(name: str) -> Path:
    """Download the two files of an adapter from the hub, and return their folder."""
    require_on_hub(name, file=CONFIG)
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=[CONFIG, TENSORS]))
    except (OSError, ValueError, HfHubHTTPError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"cannot find the adapter {name!r}: {first}") from error


def _check_config(name: str, config: Any) -> None:
    """Raise ModelError for an adapter that is not a plain LoRA.

    An unknown field is refused if it is True, or a list or a dict that is not empty, because it may
    change the answer. Other unknown fields are ignored.
    """
    kind = config.get("peft_type") if isinstance(config, Mapping) else None
    if kind != "LORA":
        _refuse(name, f"is of kind {kind!r}; only LORA can share a pass")
    if config.get("bias", "none") != "none":
        _refuse(name, f"trains biases (bias={config['bias']!r}); only bias='none' can share a pass")
    start = config.get("init_lora_weights")
    if start not in _PLAIN_STARTS:
        _refuse(name, f"changes the base model (init_lora_weights={start!r})")
    for key, value in config.items():
        if key not in _KNOWN and (value is True or (isinstance(value, list | dict) and value)):
            _refuse(name, f"is not a plain LoRA ({key}={value!r})"[:200])


def _update(
    name: str, layer: str, pair: Mapping[str, Tensor], config: Mapping[str, Any], model: Any
) -> Update:
    if len(pair) < 2:
        _refuse(name, f"lacks lora_A or lora_B of {layer!r}")
    try:
        module = model.get_submodule(layer)
    except AttributeError:
        _refuse(name, f"adapts {layer!r}, which {type(model).__name__} does not have")
    sizes = sizes_of(module)
    if sizes is None:
        _refuse(
            name, f"adapts {layer!r}, a {type(module).__name__}; only linear layers can be adapted"
        )
    # The rank is read from the tensors, because the configuration may state another rank for this
    # layer.
    rank = pair["A"].shape[0] if pair["A"].ndim else 0
    stored = tuple(pair["A"].shape), tuple(pair["B"].shape)
    if not rank or stored != ((rank, sizes[0]), (sizes[1], rank)):
        what = f"{stored} for {layer!r}, where (rank, {sizes[0]}) and ({sizes[1]}, rank) fit"
        _refuse(name, f"was made for another model: it has shapes {what}")
    alpha = _alpha(name, layer, config)
    # rsLoRA divides by the root of the rank (Kalajdzievski, 2023).
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    return Update(pair["A"], pair["B"].t() * scale)


def _alpha(name: str, layer: str, config: Mapping[str, Any]) -> float:
    """Return the alpha of a layer.

    It is the value of the first key of `alpha_pattern` that fits, or else `lora_alpha`. As in peft,
    a key is a regular expression, and it fits if it matches the end of the layer's name.
    """
    # The default is peft's own.
    where, given = "lora_alpha", config.get("lora_alpha", 8)
    patterns = config.get("alpha_pattern") or {}
    if not isinstance(patterns, Mapping):
        _refuse(
            name, f"has alpha_pattern={shown(patterns)}; it must map names of layers to numbers"
        )
    for key, value in patterns.items():
        try:
            fits = compile_pattern(rf"(?:.*\.)?(?:{key})", "alpha_pattern").fullmatch(layer)
        except FormulaError as error:
            _refuse(name, f"cannot be read: {error}")
        if fits:
            where, given = f"alpha_pattern[{shown(key)}]", value
            break
    alpha = finite(given)
    if alpha is None:
        _refuse(name, f"has {where}={given!r}; it must be a finite number")
    return alpha


def sizes_of(module: object) -> tuple[int, int] | None:
    """Return the inputs and outputs of a linear layer in either layout; None for another module."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    return (module.nx, module.nf) if isinstance(module, Conv1D) else None


def _refuse(name: str, why: str) -> NoReturn:
    raise ModelError(f"the adapter {name!r} {why}")
