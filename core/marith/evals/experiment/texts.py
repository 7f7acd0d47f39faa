"""Formulas, prompts and generated texts as plain data; a text is a line of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from marith.errors import FormulaError, RequestError
from marith.evals.experiment.store import read_lines
from marith.request.prompt import Message

PromptMessages: TypeAlias = "str | tuple[Message, ...]"
Key: TypeAlias = "tuple[str, int, int]"
FILE = "texts.jsonl"


@dataclass(frozen=True, slots=True)
class NamedFormula:
    """A formula by name: a line of the table."""

    name: str
    formula: str


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A row of the data, its text, and the prompt that is made of it."""

    row: int
    message: str
    asked: PromptMessages


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the formula that is named `line`: the `sample`-th for one row of the data.

    `message` is the row's text and `prompt` what the model was asked. `tokens` are all that were
    sampled; `calls` counts evaluations of terms.
    """

    line: str
    row: int
    sample: int
    seed: int
    message: str
    prompt: PromptMessages
    text: str
    tokens: tuple[int, ...]
    finish_reason: str
    prompt_tokens: int
    calls: int

    @property
    def key(self) -> Key:
        """Which text it is."""
        return self.line, self.row, self.sample

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Text:
        """A line of the file. Raises RequestError for what is none."""
        try:
            prompt = data["prompt"]
            prompt = prompt if isinstance(prompt, str) else tuple(prompt)
            return cls(**{**data, "prompt": prompt, "tokens": tuple(data["tokens"])})
        except (KeyError, TypeError):
            raise RequestError(f"this is no text of an evaluation: {str(data)[:80]!r}") from None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def read_texts(path: Path) -> list[Text]:
    """The texts of an evaluation, from its folder or its file. Raises RequestError."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise RequestError(f"there are no texts in {str(path)!r}")
    return [Text.from_json(line) for line in read_lines(file)]


@contextmanager
def at_row(row: int) -> Iterator[None]:
    """Errors of a request begin with the row of the data that it is for."""
    try:
        yield
    except FormulaError as error:
        raise FormulaError(f"row {row} of the data: {error}") from None
    except RequestError as error:
        raise type(error)(f"row {row} of the data: {error}") from None
