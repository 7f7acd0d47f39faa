"""The settings of a training. Invalid values are refused before data is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from marith.errors import RequestError, names_checked
from marith.request.checks import check_fields, checked_by, flag, number, whole, whole_from
from marith.scoring.weights.locate import GGUF, context_length_of, locate
from marith.scoring.weights.placing import device_for

MOST_EPOCHS = 10_000
_POSITIVE = number("a number above 0", lambda value: value > 0)
_SHARE = number("a number above 0 and below 1", lambda value: 0 < value < 1)


@names_checked()
@dataclass(frozen=True, slots=True)
class Settings:
    """One training: `base` becomes a classifier of the labels in `data`, and is saved in `out`.

    `base` is an embedded name, a directory or a hub id. `data` is a table of texts and labels.
    `out` is a directory. With `balance`, every class has as many texts in an epoch as the rarest
    class. The defaults of `epochs` and `balance` are the paper's (appendix, training and prompting
    details). `held_out` is the share of texts that are not learned from. `max_length` is in tokens,
    special tokens included; the default is the model's context length. The default `rate` is the
    paper's 1e-5, or 3e-4 for a base of fewer than 50 million weights. Raises ModelError or
    RequestError.
    """

    base: str
    data: Path
    out: Path
    text_column: str = "text"
    label_column: str = "label"
    epochs: int = field(default=5, metadata=checked_by(whole_from(1, MOST_EPOCHS)))
    rate: float | None = None
    batch_size: int = field(default=32, metadata=checked_by(whole_from(1)))
    held_out: float = field(default=0.1, metadata=checked_by(_SHARE))
    max_length: int | None = None
    balance: bool = field(default=True, metadata=checked_by(flag))
    seed: int = field(default=0, metadata=checked_by(whole_from(0)))
    device: str | None = None

    def __post_init__(self) -> None:
        for name in ("data", "out"):
            object.__setattr__(self, name, Path(getattr(self, name)).expanduser())
        check_fields(self)
        if self.text_column == self.label_column:
            raise RequestError(
                f"texts and labels must be in two columns, not both in {self.text_column!r}"
            )
        if self.rate is not None:
            _POSITIVE("rate", self.rate)
        device_for(self.device)
        if self.out.exists() and not self.out.is_dir():
            raise RequestError(f"{str(self.out)!r} is not a directory")
        if self.out.exists() and any(self.out.iterdir()):
            raise RequestError(f"the directory {str(self.out)!r} is not empty; name another --out")
        if self.base.lower().endswith(GGUF):
            raise RequestError(
                f"a GGUF file cannot be trained: name a checkpoint, not {self.base!r}"
            )
        locate(self.base)
        if self.max_length is not None:
            whole("max_length", self.max_length, 1, context_length_of(self.base))
