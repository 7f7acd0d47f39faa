"""The end of a text: its maximum length, and strings that stop it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from marith.errors import RequestError, names_checked, shown
from marith.request.ban import LETTERS, Tree, tree_of
from marith.request.checks import check_fields, checked_by, flag, optional, texts, whole, whole_from
from marith.request.other_names import AT_STOP


def token_numbers(name: str, value: Any) -> tuple[int, ...]:
    """Check that a value is a list of token ids. Return it without repeated ids."""
    if not isinstance(value, (list, tuple)):
        raise RequestError(
            f"{name} must be a list of token ids, such as [2, 7], not {shown(value)}"
        )
    return tuple(dict.fromkeys(whole(f"a token of {name}", token, 0) for token in value))


@names_checked(AT_STOP)
@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a text: after `max_tokens` tokens, or before the first of `strings`.

    With `max_tokens=None` only the context limits the text. `token_ids` end the text, as the
    model's own end-of-text tokens do, and so does a special token whose name is one of `strings`.
    Special tokens are not in the text. So a stop string that has other text besides the name of a
    special token matches only if the model spells the name in ordinary tokens. With
    `ignore_eos` the model's own end-of-text tokens are ordinary tokens. While the text has fewer
    than `min_tokens` tokens, a token that ends the text is sampled only if no other token may
    follow, and stop strings do not end the text. Stop strings never end the JSON of a schema, tool
    calls, or reasoning; a special token whose name is one of `strings` ends reasoning too.

    After `max_reasoning_tokens` tokens of reasoning, the mark that ends it is written, whatever the
    formula is, and the answer begins. With 0, a chat template that can turn reasoning off does so.
    """

    max_tokens: int | None = field(
        default=256, metadata=checked_by(optional(whole_from(1)), untrusted=True)
    )
    strings: tuple[str, ...] = field(
        default=(), metadata=checked_by(texts(LETTERS), "stop", untrusted=True)
    )
    token_ids: tuple[int, ...] = field(
        default=(), metadata=checked_by(token_numbers, "stop_token_ids", untrusted=True)
    )
    min_tokens: int = field(default=0, metadata=checked_by(whole_from(0), untrusted=True))
    ignore_eos: bool = field(default=False, metadata=checked_by(flag, untrusted=True))
    max_reasoning_tokens: int | None = field(
        default=None, metadata=checked_by(optional(whole_from(0)), untrusted=True)
    )
    tree: Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            problem = f"min_tokens must be at most max_tokens ({self.max_tokens})"
            raise RequestError(f"{problem}, not {self.min_tokens}")
        object.__setattr__(self, "tree", tree_of(self.strings))

    def ends(self, eos: Iterable[int]) -> frozenset[int]:
        """Return the tokens that end a text: `token_ids`, and `eos` unless it is ignored."""
        return frozenset(self.token_ids) if self.ignore_eos else frozenset((*eos, *self.token_ids))


def read_stop(stop: Any) -> list[str]:
    """Return stop strings as a list, from None, a string or a list. Raises RequestError."""
    listed = [stop] if isinstance(stop, str) else [] if stop is None else stop
    if not isinstance(listed, (list, tuple)) or not all(isinstance(s, str) for s in listed):
        raise RequestError(f"stop must be a list of texts, not {shown(stop)}")
    return [*listed]
