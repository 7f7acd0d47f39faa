"""Conversion between texts and tokens of the base model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from marith.answers.answer_grammar import AnswerGrammars
from marith.errors import faults_named, names_checked
from marith.formula.meaning.binding import BARE_MODEL
from marith.request.forms.tools import Tools
from marith.request.prompt import AnyPrompt, to_prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Detokenizer
from marith.scoring.registry import Registry


class TokenCalls(ABC):
    """The calls of an engine that tokenize. Safe in any thread."""

    answers: AnswerGrammars

    @property
    @abstractmethod
    def _registry(self) -> Registry:
        """The loaded models."""

    @names_checked()
    def encode(self, text: str, start: bool = False) -> list[int]:
        """Return the tokens of a text. Names of special tokens in the text are plain text.

        With `start`, the tokens that the tokenizer puts before a text are added; for most models,
        this is one token.
        """
        with faults_named():
            vocabulary = self._registry.vocabulary
            tokens = vocabulary.encode(text, start=start)
            first = vocabulary.start_id
            return [first] if start and not tokens and first is not None else tokens

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens in the vocabulary."""
        return self._registry.vocabulary.size

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a text, in ascending order."""
        return sorted(self._registry.vocabulary.eos_ids)

    def spell(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, with the names of special tokens."""
        return self._registry.vocabulary.spell(tokens)

    @names_checked()
    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return self._registry.vocabulary.decode(tokens)

    def special_texts_in(self, text: str) -> list[str]:
        """Return the names of special tokens that a text contains as plain characters."""
        return [name for name in self._registry.vocabulary.special_texts if name in text]

    def pieces(self, tokens: Sequence[int]) -> list[tuple[bytes, int]]:
        """Return the bytes of each token, and its offset in the decoded text, in characters.

        A special token has the bytes of its name. A token that continues a character begins where
        the character begins.
        """
        detokenizer, pieces = Detokenizer(self._registry.vocabulary), []
        for token in tokens:
            data = self.answers.lexicon.data_of(token)
            pieces.append((data, detokenizer.place(data)))
            detokenizer.feed(token)
        return pieces

    @names_checked()
    def count_tokens(
        self,
        prompt: AnyPrompt,
        tools: Sequence[Mapping[str, Any]] = (),
        template_options: Mapping[str, Any] | None = None,
    ) -> int:
        """Return the number of tokens of a prompt as the bare model reads it.

        The template and the tools are included.
        """
        definitions = Tools(tuple(tools)).definitions if tools else ()
        with faults_named():
            read = to_prompt(prompt, definitions, template_options)
            return len(to_tokens(BARE_MODEL, read, self._registry.vocabulary))
