"""The models by name: each formula of the persona file, and the base model."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path
from typing import Any

import marith
from marith import Engine, FormulaError, Options, RequestError
from marith.serving.server_settings import ServerSettings, ServingLimits
from marith.serving.wire.refusals import Refusal

# Operators of a formula. A minus needs blanks, because names of models contain hyphens.
_OPERATORS = re.compile(r"[*+()]|\s-\s")
_WORD = re.compile(r"[^\W\d]\w*")
_OWN_FORMULA = (
    'to use a formula, write {"marith": {"formula": …}} in the body, in OpenAI\'s SDK '
    'extra_body={"marith": {"formula": …}}; the server needs --allow-formulas'
)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as clients name it: its fixed options and its engine."""

    name: str
    options: Options
    engine: Engine
    fingerprint: str
    parent: str | None = None

    @property
    def description(self) -> str:
        """The formula's description in the persona file, or ""."""
        file = self.options.file
        return "" if file is None else file.descriptions.get(file.formula_name or "", "")

    @property
    def own_tokens(self) -> int | None:
        """The maximum number of tokens of an answer that the file sets, or None.

        It applies to clients that send no maximum.
        """
        file = self.options.file
        if file is None:
            return None
        own = file.own_options.get(file.formula_name or "", {})
        is_own = "max_tokens" in own or "max_tokens" in file.options
        return self.options.max_tokens if is_own else None

    def require_text_fits(
        self, text: str | Sequence[int], name: str, limits: ServingLimits
    ) -> None:
        """Raise Refusal for a text that is longer than the context can hold.

        The check comes before the text is tokenized, which takes long for a long text. For tokens,
        raise Refusal if the model does not have one of them. `name` is the name of the field.
        """
        if not isinstance(text, str):
            self.require_known_tokens(text, name)
            return
        limit = min(limits.letters, max(100_000, 32 * self.engine.context_length))
        if len(text) > limit:
            problem = f"a text must have at most {limit:,} characters for a context of "
            problem += f"{self.engine.context_length:,} tokens, not {len(text):,}"
            code = "context_length_exceeded"
            raise Refusal(f"{problem} ({code})", code=code, param=name)

    def warnings_of_text(self, text: str, name: str = "prompt") -> list[str]:
        """Return a warning if the text of a field contains the name of a special token.

        A client that renders the chat template itself means the token, but the server reads plain
        text.
        """
        spelt = self.engine.special_texts_in(text)
        if not spelt:
            return []
        warning = (
            f"the {name} contains {spelt[0]}, which is read as plain text, not as a special token"
        )
        return [f"{warning}; send messages to /v1/chat/completions, or send the prompt as tokens"]

    def require_known_tokens(self, tokens: Iterable[int], name: str) -> None:
        """Raise Refusal for a token that the model does not have."""
        size = self.engine.vocabulary_size
        for token in tokens:
            if not 0 <= token < size:
                problem = (
                    f"{name} has token {token}, but the model only has tokens from 0 to {size - 1}"
                )
                raise Refusal(problem, param=name.partition(".")[0])


@dataclass(frozen=True, slots=True)
class ServedModels:
    """All models of a server."""

    by_name: Mapping[str, ServedModel]
    created: int = field(default_factory=lambda: int(time.time()))

    def find(self, name: str) -> ServedModel:
        """Return a model by name, or the first model for an empty name.

        Raises Refusal for an unknown name.
        """
        model = self.by_name.get(name or next(iter(self.by_name)))
        if model is None:
            served = f", but {', '.join(self.by_name)}"
            hint = marith.errors.suggestion(name[:80], self.by_name, served)
            if _is_formula(name):
                hint = f"{served}; {_OWN_FORMULA}"
            problem = f"there is no model {name!r:.80}{hint}"
            raise Refusal(problem, 404, "model_not_found", "model")
        return model

    def engines(self) -> list[Engine]:
        """Return every engine once."""
        return list({id(one.engine): one.engine for one in self.by_name.values()}.values())


def _is_formula(name: str) -> bool:
    """Return True for a formula with an operator, whatever its terms are."""
    if not _OPERATORS.search(name):
        return False
    words = (word for word in _WORD.findall(name) if not iskeyword(word))
    try:
        marith.parse(name, dict.fromkeys(words, marith.Uniform()), trusted=False)
    except FormulaError:
        return False
    return True


def load_models(settings: ServerSettings) -> ServedModels:
    """Load the models of a server. Raises FormulaError, RequestError or ModelError."""
    found = named_options(settings)
    models = {
        name: ServedModel(name, options, options.engine(), _fingerprint(options), parent)
        for name, (options, parent) in found.items()
    }
    return ServedModels(models)


def shown_name(model: str) -> str:
    """Return the name of a model for clients. A file or directory is named without its folders."""
    path = Path(model).expanduser()
    if path.suffix.lower() == ".gguf" and ":" not in model:
        return path.stem
    return path.resolve().name if path.is_dir() else model


def named_options(settings: ServerSettings) -> dict[str, tuple[Options, str | None]]:
    """Return the options and the base model of each model, by name. Loads nothing.

    The base model comes first. Raises FormulaError or RequestError.
    """
    common: dict[str, Any] = {"trusted": False, "frozen": not settings.allow_formulas}
    given = {"model": settings.model, **settings.placement}
    common |= {name: value for name, value in given.items() if value is not None}
    with marith.errors.valid_options():
        file: dict[str, Any] = {"file": str(settings.file)} if settings.file else {}
        base = Options(**common, **file)
        own_name = settings.name or shown_name(base.model)
        found: dict[str, tuple[Options, str | None]] = {own_name: (base, None)}
        for name in base.file.formulas if base.file is not None else ():
            if name == own_name:
                problem = f"{name!r} is the name of a formula of the file and of its model"
                raise RequestError(f"{problem}; write another name as --name")
            found[name] = Options.from_file(str(settings.file), name, **common), own_name
    return found


def _fingerprint(options: Options) -> str:
    """Return a hash that changes with every option that affects a text."""
    data = json.dumps(options.identity(), sort_keys=True, default=str)
    return f"fp_{hashlib.sha256(data.encode()).hexdigest()[:12]}"
