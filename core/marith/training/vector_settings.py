"""The settings of a training of a control vector. Invalid values are refused before loading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marith.errors import RequestError, names_checked, shown
from marith.request.checks import check_fields, checked_by, filled, number, texts, whole, whole_from
from marith.scoring.weights.locate import locate
from marith.scoring.weights.placing import Placement, device_for

# The most characters of all continuations, or of all example texts of one side.
MOST_LETTERS = 10_000_000
_SHARE = number("a number above 0 and below 1", lambda value: 0 < value < 1)
_TEXTS = texts(MOST_LETTERS)
_OWN = Path(__file__).with_name("continuations.txt")


def own_continuations() -> tuple[str, ...]:
    """Return the neutral texts of the package, which follow the two prompts."""
    return tuple(_OWN.read_text(encoding="utf-8").splitlines())


@names_checked()
@dataclass(frozen=True, slots=True)
class VectorSettings:
    """One training: the direction from `negative` to `positive` in the hidden states of `model`.

    `model` is an embedded name, a directory, a GGUF file or a hub id. `positive` and `negative` are
    two opposite prompts, or two lists of example texts. Each prompt is a user's message, and an
    answer to it begins with each of the `continuations`; the default is 40 neutral sentences.
    Example texts are read alone.

    `layers` is the first and the last decoder layer of the vector, counted from 0; by default the
    held-out measure chooses them. Layer 0 cannot be one of them, because llama.cpp refuses a file
    with a direction for it. `held_out` is the share of continuations or example texts that
    the directions are not computed from. `seed` decides which ones. `batch_size` is the number of
    texts in a pass. `device`, `dtype` and `revision` are those of `Engine.load`. Raises ModelError
    or RequestError.
    """

    model: str
    positive: str | Sequence[str]
    negative: str | Sequence[str]
    continuations: Sequence[str] = field(default_factory=own_continuations, repr=False)
    layers: tuple[int, int] | None = None
    held_out: float = field(default=0.25, metadata=checked_by(_SHARE))
    batch_size: int = field(default=16, metadata=checked_by(whole_from(1)))
    seed: int = field(default=0, metadata=checked_by(whole_from(0)))
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("positive", "negative"):
            value = getattr(self, name)
            check = filled if isinstance(value, str) else _at_least_two
            object.__setattr__(self, name, check(name, value))
        object.__setattr__(
            self, "continuations", _at_least_two("continuations", self.continuations)
        )
        if isinstance(self.positive, str) != isinstance(self.negative, str):
            raise RequestError(
                "positive and negative must be two prompts or two lists of texts, not one of each"
            )
        if self.positive == self.negative:
            raise RequestError(f"positive and negative are both {shown(self.positive)}")
        if self.layers is not None:
            object.__setattr__(self, "layers", _range(self.layers))
        device_for(self.device)
        locate(self.model)

    @property
    def are_prompts(self) -> bool:
        """True for two prompts, and False for two lists of example texts."""
        return isinstance(self.positive, str)

    @property
    def placement(self) -> Placement:
        """Where the model is loaded, and in which type."""
        return Placement(self.device, self.dtype, self.revision)


def _at_least_two(name: str, value: object) -> tuple[str, ...]:
    checked: tuple[str, ...] = () if isinstance(value, str) else _TEXTS(name, value)
    if len(checked) < 2:
        raise RequestError(f"{name} must be at least two texts, not {shown(value)}")
    return checked


def _range(layers: object) -> tuple[int, int]:
    if not isinstance(layers, tuple) or len(layers) != 2:
        raise RequestError(f"layers must be a pair such as (10, 21), not {shown(layers)}")
    first = whole("the first of layers", layers[0], 0)
    if first == 0:
        raise RequestError(
            f"layers must begin at 1 or later, not {shown(layers)}: llama.cpp refuses a file with "
            "a direction for layer 0"
        )
    return first, whole("the last of layers", layers[1], first)
