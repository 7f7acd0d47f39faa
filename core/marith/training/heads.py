"""Which head a base model gets: the one it has, where it has these classes, or a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from marith.errors import ModelError

_UNNAMED = "LABEL_"


@dataclass(frozen=True, slots=True)
class Head:
    """The names of the classes in the order of the logits, and whether there are weights for them.

    `place` says for each label of the data, in its order, which class that is.
    """

    names: tuple[str, ...]
    place: tuple[int, ...]
    kept: bool
    notice: str | None = None


def choose(config: Any, labels: Sequence[str]) -> Head:
    """The head for `labels`, from the configuration of the base model."""
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
    """Write the classes into a configuration, each of which excludes the others."""
    config.num_labels = len(head.names)
    config.id2label = dict(enumerate(head.names))
    config.label2id = {name: i for i, name in enumerate(head.names)}
    config.problem_type = "single_label_classification"


def renew(model: Any) -> None:
    """Draw the output layer of a classifier anew. Raises ModelError where there is none."""
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
    spread = getattr(model.config.get_text_config(), "initializer_range", None) or 0.02
    nn.init.normal_(layers[-1].weight, std=spread)
    if layers[-1].bias is not None:
        nn.init.zeros_(layers[-1].bias)


def _listed(names: Sequence[str]) -> str:
    return " / ".join(names)
