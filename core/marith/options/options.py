"""The options of a model, as plain data: checked when they are made, and loaded when used."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from marith.errors import Busy, RequestError
from marith.formula.text.trust import of_call
from marith.options import meaning
from marith.options.file import Personas
from marith.options.option_checks import (
    ALIASES,
    AT_CREATION,
    NO_DATA,
    PLACEMENT,
    by_name,
    check_call,
    unique_name,
)
from marith.options.option_fields import OptionFields, opened_file
from marith.request.plan import Plan
from marith.request.prompt import AnyPrompt, hides, to_prompt
from marith.request.request import InspectedOptions, Request
from marith.request.sampling import Sampling, sample_seed
from marith.request.stop import read_stop

if TYPE_CHECKING:
    from marith.engine.engine import Engine
    from marith.engine.threads.deadline import Deadline
    from marith.engine.ticket import Ticket
    from marith.formula.tree.nodes import Formula

FIRST_PAUSE = 0.1  # seconds before a busy engine is asked again; each pause is twice the last
# What frameworks note in a model by themselves.
_OF_FRAMEWORKS = (
    "callback_manager", "callbacks", "completion_to_prompt", "messages_to_prompt", "metadata",
    "profile",
)  # fmt: skip
_DRAWN = tuple(field.name for field in fields(Sampling) if field.name != "logit_bias")  # a dict


class Options(OptionFields):
    """The options of a model. Adapters inherit them; a call may give each but `file` and `engine`.

    All are checked when they are made, before any model loads; an unknown option raises. If they
    are not `trusted`, a call may set how an answer is drawn, and the text of its `formula` and
    `terms` may combine what the options define; if they are `frozen`, a call gives neither.
    """

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **options: Any) -> Self:
        """Those of a file with its formula `name`, and others. FormulaError for any fault in it."""
        file = opened_file(path)
        if file is None:
            raise RequestError(f"a file has a path, not {path!r}")
        if name is None:
            return cls(file=file, **options)
        file.require(name)
        over = file.over_model(options.pop("model")) if "model" in options else file
        return cls(file=over, model=name, **options)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """The names of all options, without the fields that an adapter adds."""
        return tuple(Options.model_fields)

    @classmethod
    def call_names(cls) -> tuple[str, ...]:
        """The names of the options that a call may give, under every name that they have."""
        return tuple(name for name in (*cls.option_names(), *ALIASES) if name not in AT_CREATION)

    @classmethod
    def by_name(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options under their own names, without those that are None and so not given.

        Raises RequestError for an option that is given under two names with different values.
        """
        return by_name(options)

    @classmethod
    def check_call(cls, options: Mapping[str, Any], others: Sequence[str] = ()) -> None:
        """Raise RequestError for an option that a call does not have, neither here nor in `others`.

        A call has neither `file` nor `engine`.
        """
        check_call(options, [*cls.call_names(), *others], cls.__name__)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The model, the formula and what is not as by default; of a file its path."""
        own = self.model_fields_set.difference(self.option_names(), _OF_FRAMEWORKS)
        for name in (*self.option_names(), *sorted(own)):
            field, value = type(self).model_fields[name], getattr(self, name)
            default = field.get_default(call_default_factory=True)
            if name in ("model", "formula") or value != default:
                yield field.alias or name, value.path if isinstance(value, Personas) else value

    def __getstate__(self) -> dict[Any, Any]:
        """Return what is pickled. Raises RequestError for a loaded engine and for constraints."""
        self._require_data()
        return super().__getstate__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """A copy that shares the loaded engine."""
        memo = {} if memo is None else memo
        memo[id(self.loaded_engine)] = self.loaded_engine
        return super().__deepcopy__(memo)

    @property
    def speaks_as(self) -> str:
        """The model's name in answers: that of a formula of the file, or of the model."""
        return (self.file and self.file.formula_name) or self.model

    @property
    def faithfully(self) -> Formula:
        """The formula for a prompt in which something was retrieved."""
        return meaning.faithfully(*self._meaning)

    def values(self) -> dict[str, Any]:
        """Every option with its value."""
        return {name: getattr(self, name) for name in self.option_names()}

    def chosen(self) -> dict[str, Any]:
        """Every option with its value as plain data, the content of `file` included.

        Raises RequestError for a loaded engine and for constraints, which are no data.
        """
        self._require_data()
        return {**self._data, "file": None if self.file is None else asdict(self.file)}

    def _require_data(self) -> None:
        for name, problem in NO_DATA.items():
            if getattr(self, name):
                raise RequestError(problem)

    def identity(self) -> dict[str, Any]:
        """All that a text depends on, as plain data, for caches and observers.

        A loaded engine and functions have names which no others have.
        """
        options = self._data
        if self.loaded_engine is not None:
            options["engine"] = unique_name(self.loaded_engine)
        if self.constraints:
            options["constraints"] = [*map(unique_name, self.constraints)]
        return options

    @property
    def _data(self) -> dict[str, Any]:
        """Every option that is data; what was read of a file is in the formula and the others."""
        return {
            name: json.loads(json.dumps(asdict(v))) if isinstance(v, Plan) else v
            for name, v in self.values().items()
            if name not in (*NO_DATA, "file")
        }

    def over(self, options: Mapping[str, Any], stop: str | Iterable[str] | None = None) -> Options:
        """These options, overridden by those of one call; stop strings and terms are added.

        If `model` is a formula of the file, that formula's options replace those of the former
        formula; options that differ from the former formula's stay. Raises RequestError for an
        option that does not exist, and for `file`, which is read when options are made.
        """
        if not options and stop is None:
            return self
        self.check_call(options)
        call, strings = self.by_name(options), read_stop(stop)
        base = self.values()
        if self.frozen or not self.trusted:
            formulas = getattr(self.file, "formulas", ())
            call = of_call(call, self.terms, formulas, self.frozen, self.allowed)
        if self.file is not None and "model" in call:
            base = self.file.switched(base, call, OptionFields)
            del call["model"]
        strings += read_stop(call.pop("stop", None))
        if isinstance(call.get("terms"), Mapping):
            call["terms"] = {**base["terms"], **call["terms"]}
        if strings:
            call["stop"] = list(dict.fromkeys([*base.get("stop", ()), *strings]))
        return Options(**{**base, **call})

    def known_context(self, base: int | None = None) -> int | None:
        """The most tokens that all terms read, by their files; `base` is the model's, if known."""
        from marith.scoring.weights.locate import context_length_of

        if self.loaded_engine is not None:
            base = self.loaded_engine.context_length
        base = base or self.context_length or context_length_of(self.model, self.revision)
        others = map(context_length_of, meaning.other_models(self.faithfully, self._meaning[1]))
        return base and min([base, *filter(None, others)])

    def retrieves(self, prompt: AnyPrompt) -> bool:
        """Whether `faithful_to` matches in a prompt, if `faithful` is set. Raises RequestError."""
        if not self.faithful:
            return False
        if self.faithful_to is None:
            raise RequestError(f"faithful is {self.faithful}, but faithful_to is not given")
        return hides(self.faithful_to, to_prompt(prompt).messages)

    def engine(self) -> Engine:
        """The process's engine for this model and placement; loads it at the first call.

        A loaded engine that was given is returned as it is.
        """
        from marith.engine.engine import Engine

        if self.loaded_engine is not None:
            return cast(Engine, self.loaded_engine)
        return Engine.shared(self.model, **{name: getattr(self, name) for name in PLACEMENT})

    def submit(
        self,
        prompt: AnyPrompt,
        *,
        started: float | None = None,
        **asked: Unpack[InspectedOptions],
    ) -> Ticket:
        """Start a request on the engine. Blocks while weights load, or while the engine is busy.

        `asked` are other fields of the request, as for `request`. Raises Busy after `max_retries`,
        or if the timeout ends before the next one; other errors are those of `Engine.submit`.
        """
        started = time.monotonic() if started is None else started  # loading counts too
        request, engine, retry = self.request(prompt, **asked), self.engine(), 0
        while True:
            try:
                if request.inspect:
                    from marith.inspection.calls import submit_inspected

                    return submit_inspected(engine, request, started)
                return engine.submit(request, started)
            except Busy:
                from marith.engine.threads.deadline import Deadline

                pause, deadline = FIRST_PAUSE * 2**retry, Deadline.of(request.timeout, started)
                if retry == self.max_retries or pause >= deadline.left:
                    raise
                time.sleep(pause)
                retry += 1

    def sample(self, i: int) -> Self:
        """These options for sample `i` of a prompt: their seed, if any, is seed + i."""
        if i == 0 or self.seed is None:
            return self
        return self.model_copy(update={"seed": sample_seed(self.seed, i)})

    def deadline(self, started: float | None = None) -> Deadline:
        """The deadline of an answer that is requested now, or at `started` (time.monotonic)."""
        from marith.engine.threads.deadline import Deadline

        return Deadline.of(self.timeout, started)

    def request(self, prompt: AnyPrompt, **asked: Unpack[InspectedOptions]) -> Request:
        """The request for a prompt; the fields in `asked` override these options.

        Raises RequestError for `trusted` and `allowed`, which are options: what they restrict is
        what a call brings.
        """
        for name in ("trusted", "allowed"):
            if name in asked:
                raise RequestError(f"{name} is an option: write Options({name}=…) and over(…)")
        tools = asked.get("tools")
        if tools is not None and not self.steer_tools:
            asked["tools"] = replace(tools, steer=False)
        from_options: InspectedOptions = {
            "timeout": self.timeout,
            "template_options": self.chat_template_kwargs or None,
            "ban": meaning.ban(tuple(self.ban)),
            "constraints": self.constraints,
            "cache_salt": self.cache_salt,
            "inspect": self.inspect,
        }
        texts, tokens = tuple(self.stop), tuple(self.stop_token_ids)
        ended = meaning.stop(self.max_tokens, texts, tokens, self.min_tokens, self.ignore_eos)
        formula, terms, *_ = self._meaning
        return Request(
            prompt,
            self.faithfully if self.retrieves(prompt) else formula,
            dict(terms),
            meaning.sampling(*(getattr(self, n) for n in _DRAWN), tuple(self.logit_bias.items())),
            ended,
            self.speculation,
            **(from_options | asked),
        )
