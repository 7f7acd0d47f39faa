"""What an application says of a model, as plain data: checked when it is said, loaded when used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from marith.engine.plan import Plan
from marith.engine.stages import Stages
from marith.formula.binding import parse, resolve
from marith.formula.checking import check
from marith.formula.nodes import Formula
from marith.formula.parsing import read

if TYPE_CHECKING:
    from marith.engine.engine import Engine
    from marith.engine.request import Request
    from marith.scoring.scorer import Message


class Options(BaseModel):
    """The options of a model; an adapter inherits them, and each may be given again for a call.

    `formula` says what to sample from; `terms` maps its names to system prompts or formula text.
    `speculation` is "auto", None or a `Plan`, which may be given as its JSON or as a mapping. All
    are checked here, before any model loads. `timeout` is in seconds, from when a loaded model is
    asked. An unknown option raises.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = Field(default_factory=lambda: os.environ.get("MARITH_MODEL", "pocket"))
    formula: str = "M"
    terms: dict[str, str] = Field(default_factory=dict)
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    max_tokens: int = Field(default=256, ge=1)
    stop: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    seed: int | None = None
    device: str | None = None
    dtype: str | None = None
    max_lanes: int = Field(default=64, ge=1)
    max_queue: int = Field(default=4096, ge=0)
    cache_bytes: int = Field(default=2**30, ge=0)
    context_length: int | None = Field(default=None, ge=2)
    revision: str | None = None
    speculation: Plan | Literal["auto"] | None = "auto"
    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @field_validator("formula", mode="before")
    @classmethod
    def _formula_as_text(cls, formula: Any) -> Any:
        return _as_text(formula)

    @field_validator("terms", mode="before")
    @classmethod
    def _terms_as_text(cls, terms: Any) -> Any:
        if not isinstance(terms, Mapping):
            return terms
        return {name: _as_text(term) for name, term in terms.items()}

    @field_validator("speculation", mode="before")
    @classmethod
    def _plan_from_json(cls, speculation: Any) -> Any:
        if isinstance(speculation, str) and speculation.lstrip().startswith("{"):
            return Plan.from_json(speculation)
        return speculation

    @model_validator(mode="after")
    def _formula_means_something(self) -> Self:
        formula, known = parse(self.formula), resolve(self.terms)
        check(formula, known)
        Stages.of(formula, known, self.speculation)
        return self

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of all options, without the fields of a framework that inherits them."""
        return tuple(Options.model_fields)

    def chosen(self) -> dict[str, Any]:
        """Every option with its value, a plan as plain data: all that a text hangs on."""
        values = {name: getattr(self, name) for name in self.option_names()}
        if isinstance(self.speculation, Plan):
            values["speculation"] = asdict(self.speculation)
        return values

    def over(self, options: Mapping[str, Any], stop: str | Iterable[str] | None = None) -> Options:
        """These options with those of one call over them; strings that stop are joined.

        Raises ValueError for an option that does not exist.
        """
        for name in options:
            if name not in self.option_names():
                known = ", ".join(self.option_names())
                raise ValueError(f"{type(self).__name__} takes no option {name!r}, but {known}")
        strings = [*self.stop, *_listed(stop), *_listed(options.get("stop"))]
        return Options(**{**self.chosen(), **options, "stop": list(dict.fromkeys(strings))})

    def engine(self) -> Engine:
        """The process's one engine for this model and placement; loads it at first."""
        from marith.engine.engine import Engine  # torch, which plain data does without

        return Engine.shared(
            self.model,
            device=self.device,
            dtype=self.dtype,
            max_lanes=self.max_lanes,
            max_queue=self.max_queue,
            cache_bytes=self.cache_bytes,
            context_length=self.context_length,
            revision=self.revision,
        )

    def request(self, prompt: str | Sequence[Message]) -> Request:
        """What the engine is asked for a prompt."""
        from marith.decoding.sampling import Sampling  # torch again
        from marith.decoding.stopping import Stop
        from marith.engine.request import Request

        sampling = Sampling(
            self.temperature,
            self.top_k,
            self.top_p,
            self.seed,
            self.min_p,
            self.repetition_penalty,
        )
        stop = Stop(self.max_tokens, tuple(self.stop))
        return Request(
            prompt, self.formula, self.terms, sampling, stop, self.speculation, self.timeout
        )


def _as_text(value: Any) -> Any:
    """A formula as text that reads back as itself. Raises where it is too long for that."""
    if not isinstance(value, Formula):
        return value
    text = str(value)
    if read(text) != value:
        raise ValueError(f"this formula cannot be written as text: {text[:80]}")
    return text


def _listed(stop: str | Iterable[str] | None) -> list[str]:
    return [stop] if isinstance(stop, str) else list(stop or ())
