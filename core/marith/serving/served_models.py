"""Models by name: each formula of the persona file, and the model that they are over."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import marith
from marith import Engine, Options, RequestError
from marith.serving.server_settings import Bounds, ServerSettings
from marith.serving.wire.refusals import Refusal


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as clients name it: options, none of which a client changes, and its engine."""

    name: str
    options: Options
    engine: Engine
    fingerprint: str
    parent: str | None = None

    @property
    def description(self) -> str:
        """What its file says of it, for people; "" where it says nothing."""
        file = self.options.file
        return "" if file is None else file.descriptions.get(file.formula_name or "", "")

    @property
    def own_tokens(self) -> int | None:
        """The most tokens of an answer for which a client names no number, if the file has one."""
        file = self.options.file
        if file is None:
            return None
        own = file.formulas.get(file.formula_name or "", {})
        is_own = "max_tokens" in own or "max_tokens" in file.options
        return self.options.max_tokens if is_own else None

    def hold_text(self, text: str | Sequence[int], name: str, bounds: Bounds) -> None:
        """Raises Refusal for a text that no context holds, before anybody reads it.

        So it does for tokens that the model does not have; `name` is the field's.
        """
        if not isinstance(text, str):
            self.hold_tokens(text, name)
            return
        limit = min(bounds.letters, max(100_000, 32 * self.engine.context_length))
        if len(text) > limit:
            problem = f"a text has at most {limit:,} letters for a context of "
            problem += f"{self.engine.context_length:,} tokens, not {len(text):,}"
            code = "context_length_exceeded"
            raise Refusal(f"{problem} ({code})", code=code, param=name)

    def warnings_of_text(self, text: str) -> list[str]:
        """Return the warning that a text spells a special token, if it does.

        A client that renders a chat itself means a token by it, and here a text is data.
        """
        spelt = self.engine.special_texts_in(text)
        if not spelt:
            return []
        warning = f"the prompt spells {spelt[0]}, which is read as letters like the rest of a text"
        return [f"{warning}; send messages to /v1/chat/completions, or the prompt as tokens"]

    def hold_tokens(self, tokens: Iterable[int], name: str) -> None:
        """Raises Refusal for a token that the model does not have."""
        size = self.engine.vocabulary_size
        for token in tokens:
            if not 0 <= token < size:
                problem = f"{name} has token {token}, and the model has tokens from 0 to {size - 1}"
                raise Refusal(problem, param=name.partition(".")[0])


@dataclass(frozen=True, slots=True)
class ServedModels:
    """All models of a server."""

    by_name: Mapping[str, ServedModel]
    created: int = field(default_factory=lambda: int(time.time()))

    def find(self, name: str) -> ServedModel:
        """A persona by name; without one the first. Raises Refusal."""
        persona = self.by_name.get(name or next(iter(self.by_name)))
        if persona is None:
            served = f", but {', '.join(self.by_name)}"
            hint = marith.errors.suggestion(name[:80], self.by_name, served)
            problem = f"there is no model {name!r:.80}{hint}"
            raise Refusal(problem, 404, "model_not_found", "model")
        return persona

    def engines(self) -> list[Engine]:
        """Every engine, once."""
        return list({id(one.engine): one.engine for one in self.by_name.values()}.values())


def load_models(settings: ServerSettings) -> ServedModels:
    """The models of a server, loaded. Raises FormulaError, RequestError or ModelError."""
    found = named_options(settings)
    models = {
        name: ServedModel(name, options, options.engine(), _fingerprint(options), parent)
        for name, (options, parent) in found.items()
    }
    return ServedModels(models)


def shown_name(model: str) -> str:
    """The name of a model for clients: of a file or directory its own name, without the folders."""
    path = Path(model).expanduser()
    if path.suffix.lower() == ".gguf" and ":" not in model:
        return path.stem
    return path.resolve().name if path.is_dir() else model


def named_options(settings: ServerSettings) -> dict[str, tuple[Options, str | None]]:
    """The options of each model by its name, and the model that it is made of; nothing is loaded.

    The base model comes first. Raises FormulaError or RequestError.
    """
    common: dict[str, Any] = {"trusted": False, "frozen": not settings.allow_formulas}
    if settings.model is not None:
        common["model"] = settings.model
    with marith.errors.valid_options():
        file: dict[str, Any] = {"file": str(settings.file)} if settings.file else {}
        base = Options(**common, **file)
        own_name = settings.name or shown_name(base.model)
        found: dict[str, tuple[Options, str | None]] = {own_name: (base, None)}
        for name in base.file.formulas if base.file is not None else ():
            if name == own_name:
                problem = f"{name!r} is a formula of the file, and the name of its model too"
                raise RequestError(f"{problem}; write another name as --name")
            found[name] = Options.from_file(str(settings.file), name, **common), own_name
    return found


def _fingerprint(options: Options) -> str:
    """Changes with anything that the options say of a text."""
    data = json.dumps(options.identity(), sort_keys=True, default=str)
    return f"fp_{hashlib.sha256(data.encode()).hexdigest()[:12]}"
