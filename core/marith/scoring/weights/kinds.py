"""Recognise the kind of a checkpoint, and check before reading its weights that marith can use it.

Calls into transformers while a model is loaded run inside `raising_model_error`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSequenceClassification

from marith.errors import MarithError, ModelError
from marith.scoring.weights.placing import main_device

LANGUAGE_MODEL = "a causal language model"
CLASSIFIER = "a sequence classifier"
CLASSES = {LANGUAGE_MODEL: AutoModelForCausalLM, CLASSIFIER: AutoModelForSequenceClassification}
# The ending of a class's name in transformers names the kind of model.
_ENDINGS = {
    "ForCausalLM": LANGUAGE_MODEL,
    "LMHeadModel": LANGUAGE_MODEL,
    "ForSequenceClassification": CLASSIFIER,
    "ForTokenClassification": "a classifier of tokens",
    "ForQuestionAnswering": "a model that marks answers in texts",
    "ForMaskedLM": "a model that fills gaps in texts",
    "ForMultipleChoice": "a model that chooses between texts",
}


@contextmanager
def raising_model_error(what: str) -> Iterator[None]:
    """Convert every error in the block to a ModelError that begins with `what`.

    This includes panics of Rust, which are not an `Exception`. Use it only for calls into other
    libraries.
    """
    try:
        yield
    except (MarithError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{what}: {reason[:400]}") from error


def check_code(name: str, config: object) -> None:
    """Raise ModelError for a model that needs code of its own. `config` is its parsed JSON."""
    if not isinstance(config, Mapping):
        raise ModelError(f"the configuration of {name!r} is a JSON object, not {config!r:.60}")
    code = config.get("auto_map")
    if code and config.get("model_type") not in CONFIG_MAPPING:
        raise ModelError(
            f"{name!r} has its own code for the model type {config.get('model_type')!r}, which "
            "marith never runs; use a model that transformers itself implements"
        )


def check_kind(name: str, config: Any, wanted: str, architecture: str = "") -> None:
    """Raise ModelError if a configuration belongs to another kind of model than `wanted`.

    `architecture` is the name of the model's class, if the model is already loaded.
    """
    class_name = architecture or architecture_of(config)
    if wanted == LANGUAGE_MODEL and getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{name!r} is an encoder-decoder ({class_name}); marith needs {wanted}")
    kind = next((kind for ending, kind in _ENDINGS.items() if class_name.endswith(ending)), wanted)
    if kind != wanted:
        use = {CLASSIFIER: f"classifier({name!r})", LANGUAGE_MODEL: f"prompted(model={name!r})"}
        advice = f", and in formulas this is {use[kind]}" if kind in use else ""
        raise ModelError(f"{name!r} is {kind} ({class_name}); {wanted} is needed here{advice}")
    configs: Any = CLASSES[wanted]._model_mapping
    if not architecture and type(config) not in configs:
        raise ModelError(
            f"{name!r} ({class_name}) is not {wanted} in transformers; marith needs one"
        )


def class_of(kind: str, config: Any) -> Any:
    """Return transformers' class for a configuration of this kind of model."""
    classes: Any = CLASSES[kind]
    return classes._model_mapping[type(config)]


def architecture_of(config: Any) -> str:
    """Return the class that a checkpoint was saved from, or else its configuration's class."""
    listed = getattr(config, "architectures", None)
    return str(listed[0]) if isinstance(listed, list) and listed else type(config).__name__


def check_loaded(name: str, model: Any) -> None:
    """Raise ModelError for a loaded model of a kind that marith does not run."""
    if hasattr(model, "_orig_mod"):
        raise ModelError(
            f"{name!r} is compiled by torch.compile; pass the model before compilation, which is "
            "its attribute _orig_mod"
        )
    check_kind(name, model.config, LANGUAGE_MODEL, type(model).__name__)


@torch.inference_mode()
def try_out(name: str, model: Any) -> None:
    """Run a forward pass over two tokens.

    Raises ModelError if the pass fails, returns no logits, or returns NaN. If weights are damaged,
    the error names a tensor whose values are not all finite.
    """
    text = torch.zeros(1, 2, dtype=torch.long, device=main_device(model))
    kind = type(model).__name__
    with raising_model_error(f"{name!r} ({kind}) cannot read tokens as {LANGUAGE_MODEL} does"):
        out = model.eval()(input_ids=text, use_cache=False)
    if not isinstance(getattr(out, "logits", None), torch.Tensor):
        raise ModelError(
            f"{name!r} ({kind}) is a model without a head; marith needs {LANGUAGE_MODEL}"
        )
    if bool(out.logits.isnan().any()):
        raise ModelError(why_nan(name, model))


def why_nan(name: str, model: torch.nn.Module) -> str:
    """Return why a model computes NaN: damaged weights, or a number type with too small a range.

    Packed weights are not examined.
    """
    # Not every release of torch can test 8-bit values or oneDNN's layout, and tensors on the meta
    # device have no values.
    tensors = [
        (key, one)
        for key, one in model.named_parameters()
        if one.is_floating_point()
        and one.element_size() > 1
        and one.layout is torch.strided
        and not one.is_meta
    ]
    bad = {key: int((~one.isfinite()).sum()) for key, one in tensors}
    damaged = {key: count for key, count in bad.items() if count}
    if not damaged:
        dtype = str(getattr(model, "dtype", torch.float32)).removeprefix("torch.")
        problem = (
            f"{name!r} computes NaN (not a number) in {dtype}, although its weights are finite"
        )
        other = {"float16": "; write dtype='bfloat16'", "bfloat16": "; write dtype='float32'"}
        return problem + other.get(dtype, "")
    key, count = next(iter(damaged.items()))
    values = f"{count} of the {model.get_parameter(key).numel()} values of {key!r}"
    return (
        f"the weights of {name!r} are damaged: {len(damaged)} of its {len(tensors)} tensors have "
        f"values that are not finite numbers, such as {values}; if they come from files, copy the "
        "files again"
    )
