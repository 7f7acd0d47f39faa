"""Texts as tokens of the base model, and back: what an engine knows without running it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from marith.answers.answer_grammar import AnswerGrammars
from marith.errors import faults_named, names_checked
from marith.formula.meaning.binding import BARE_MODEL
from marith.request.forms.tools import Tools
from marith.request.prompt import AnyPrompt, to_prompt
from marith.scoring.prompting.tokenizer import Detokenizer
from marith.scoring.registry import Registry


class TokenCalls(ABC):
    """The calls of an engine that tokenise. Safe in any thread."""

    answers: AnswerGrammars

    @property
    @abstractmethod
    def _registry(self) -> Registry:
        """What is loaded."""

    @names_checked()
    def encode(self, text: str, start: bool = False) -> list[int]:
        """A text as tokens of the base model's vocabulary; special tokens in it are plain text.

        `start` adds what the tokenizer puts before a text of its own, mostly a first token.
        """
        with faults_named():
            vocabulary = self._registry.vocabulary
            tokens = vocabulary.encode(text, start=start)
            first = vocabulary.start_id
            return [first] if start and not tokens and first is not None else tokens

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are."""
        return self._registry.vocabulary.size

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a text, in order."""
        return sorted(self._registry.vocabulary.eos_ids)

    def spell(self, tokens: Sequence[int]) -> str:
        """Tokens as text, special tokens by their names."""
        return self._registry.vocabulary.spell(tokens)

    @names_checked()
    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens of the base model's vocabulary as text, special tokens left out."""
        return self._registry.vocabulary.decode(tokens)

    def special_texts_in(self, text: str) -> list[str]:
        """The special tokens that a text spells; in a text they are letters."""
        return [name for name in self._registry.vocabulary.special_texts if name in text]

    def pieces(self, tokens: Sequence[int]) -> list[tuple[bytes, int]]:
        """The bytes of each token's text, and how many characters `decode` writes before it.

        A special token has the bytes of its name; a token that goes on with a character begins
        where the character does.
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
        """How many tokens a prompt has as the bare model reads it, template and tools included."""
        definitions = Tools(tuple(tools)).definitions if tools else ()
        with faults_named():
            read = to_prompt(prompt, definitions, template_options)
            return self._registry.base.count(BARE_MODEL, read)
