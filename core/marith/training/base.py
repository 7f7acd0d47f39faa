"""Load the model that becomes a classifier, in float32, with a head for the data's classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

from marith.errors import ModelError, RequestError
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.kinds import raising_model_error
from marith.scoring.weights.loader import as_stored, positions_of
from marith.scoring.weights.locate import locate, tokenizer_home
from marith.scoring.weights.placing import Placement
from marith.training.settings import Settings

# If classes have no names, transformers calls them LABEL_0, LABEL_1, and so on.
_UNNAMED = "LABEL_"


@dataclass(frozen=True, slots=True)
class Head:
    """The output layer of a classifier. `names` are its classes, in the order of the logits.

    `place[i]` is the index in `names` of the data's label i. If `kept`, the layer keeps its
    trained weights; otherwise it is new.
    """

    names: tuple[str, ...]
    place: tuple[int, ...]
    kept: bool
    notice: str | None = None


def choose(config: Any, labels: Sequence[str]) -> Head:
    """Return the head for `labels`. The configuration of the base model decides if it is kept."""
    names = tuple(str(config.id2label[i]) for i in range(config.num_labels))
    in_order = tuple(range(len(labels)))
    if not any("ForSequenceClassification" in kind for kind in config.architectures or ()):
        return Head(tuple(labels), in_order, kept=False)
    if len(names) == len(labels):
        place_of = {name.lower(): i for i, name in enumerate(names)}
        if len(place_of) == len(names) and {label.lower() for label in labels} == set(place_of):
            return Head(names, tuple(place_of[label.lower()] for label in labels), kept=True)
        if tuple(labels) == tuple(map(str, in_order)):
            if all(name.startswith(_UNNAMED) for name in names):
                return Head(tuple(labels), in_order, kept=True)
            listed = ", ".join(f"{i} is {name!r}" for i, name in enumerate(names))
            return Head(names, in_order, kept=True, notice=f"the head is kept, in which {listed}")
    classes = f"its classes were {_listed(names)}, those of the data are {_listed(labels)}"
    notice = f"the head is replaced: {classes}"
    return Head(tuple(labels), in_order, kept=False, notice=notice)


def configure(config: Any, head: Head) -> None:
    """Write the classes into a configuration. Each text has exactly one class."""
    config.num_labels = len(head.names)
    config.id2label = dict(enumerate(head.names))
    config.label2id = {name: i for i, name in enumerate(head.names)}
    config.problem_type = "single_label_classification"


def renew(model: Any) -> None:
    """Give a classifier random output weights. Raises ModelError without a linear output layer."""
    body = model.base_model_prefix + "."
    layers = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and module.out_features == model.config.num_labels
        and not name.startswith(body)
    ]
    if not layers:
        raise ModelError(f"{type(model).__name__} has no linear output layer to be replaced")
    # 0.02 is the usual default of transformers.
    spread = getattr(model.config.get_text_config(), "initializer_range", None) or 0.02
    nn.init.normal_(layers[-1].weight, std=spread)
    if layers[-1].bias is not None:
        nn.init.zeros_(layers[-1].bias)


def _listed(names: Sequence[str]) -> str:
    return " / ".join(names)


@dataclass(frozen=True, slots=True)
class Base:
    """A classifier before training, with what is needed to encode texts for it.

    `limit` is the maximum number of tokens of a text, special tokens included. `padding` fills
    batches.
    """

    model: Any
    tokenizer: Any
    vocabulary: Vocabulary
    head: Head
    limit: int
    padding: int


def load(settings: Settings, labels: Sequence[str], device: torch.device) -> Base:
    """Load the base model and give it its head. Raises ModelError or RequestError.

    The weights of a new head are drawn from torch's global random numbers.
    """
    where = locate(settings.base)
    with raising_model_error(f"cannot train {settings.base!r}"), _quiet():
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_home(where), trust_remote_code=False)
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
        head = choose(config, labels)
        configure(config, head)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            where,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            trust_remote_code=False,
        )
    _fill_body(settings.base, model, report["missing_keys"])
    if not head.kept:
        renew(model)
    return _prepared(settings, model.to(device), tokenizer, head)


def _prepared(settings: Settings, model: Any, tokenizer: Any, head: Head) -> Base:
    """Return the base. Its padding token and `model_max_length` are set, to be saved with it."""
    config = model.config.get_text_config()
    vocabulary = Vocabulary(tokenizer, config.vocab_size)
    ids = (config.pad_token_id, tokenizer.pad_token_id, vocabulary.start_id, 0)
    padding = next(int(token) for token in ids if token is not None)
    model.config.pad_token_id = config.pad_token_id = padding
    config.use_cache = False
    limit = positions_of(model)
    limit = int(min(limit, getattr(tokenizer, "model_max_length", None) or limit))
    max_length = settings.max_length
    if max_length is not None and max_length > limit:
        raise RequestError(
            f"max_length is at most {limit} for {settings.base!r}, not {max_length!r}"
        )
    tokenizer.model_max_length = limit
    return Base(model, tokenizer, vocabulary, head, max_length or limit, padding)


def _fill_body(name: str, model: Any, missing: Sequence[str]) -> None:
    """Load missing weights. The weights of the head and of a pooler may be new.

    If a language model's output layer shares its weights with the embedding, the files may have
    them under the output layer's name only. To find them there, the model is loaded as a language
    model. Raises ModelError if any other model lacks weights.
    """
    body = model.base_model_prefix + "."
    missing_body_weights = sorted(
        key for key in missing if key.startswith(body) and "pooler" not in key
    )
    if not missing_body_weights:
        return
    if not any("ForCausalLM" in kind for kind in model.config.architectures or ()):
        raise ModelError(
            f"{name!r} lacks weights of {type(model).__name__}: {missing_body_weights[0]!r}"
        )
    language_model, _ = as_stored(name, Placement(device="cpu", dtype="float32"))
    model.base_model.load_state_dict(language_model.base_model.state_dict())


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of transformers about a new head; the report has its own notice."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
