"""The options of a model as plain data, checked when made. The model loads on first use."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from marith.errors import Busy, RequestError
from marith.options import cached_objects
from marith.options.option_checks import (
    ALIASES,
    AT_CREATION,
    NO_DATA,
    by_name,
    check_call,
    unique_name,
)
from marith.options.option_fields import OptionFields, opened_file
from marith.options.persona_file import PersonaFile
from marith.options.persona_options import DATA, replace_models, require_formula, switch_persona
from marith.options.untrusted import of_call
from marith.request.other_names import PLACEMENT
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

# The pause before the first retry if the engine is busy. Each further pause is twice the last.
FIRST_PAUSE = 0.1  # seconds
# The advice if a pattern matches nothing.
_PATTERN = "a . of faithful_to matches a line break only after (?s)"
_MATCHES_PASSAGES = (
    "write a regular expression that matches the retrieved passages in a prompt, such as "
    "faithful_to='(?s)<context>.*?</context>'"
)
# Fields that frameworks set by themselves.
_OF_FRAMEWORKS = (
    "callback_manager", "callbacks", "completion_to_prompt", "messages_to_prompt", "metadata",
    "profile",
)  # fmt: skip
# The fields of `Sampling` without logit_bias, which is a dict here, and not hashable.
_DRAWN = tuple(field.name for field in fields(Sampling) if field.name != "logit_bias")


class Options(OptionFields):
    """The options of a model. Adapters inherit them. A call may set all but `file` and `engine`.

    All options are checked when they are made, before any model loads. An unknown option raises an
    error. If options are not `trusted`, a call may set only how an answer is sampled, and `formula`
    and `terms`, whose text may only combine names that the options define. If options are `frozen`,
    a call must not set `formula` or `terms`.
    """

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **options: Any) -> Self:
        """Return the options of a file and of its formula `name`, overridden by `options`.

        Raises FormulaError for any fault in the file, and if `name` and `model` are both formulas.
        """
        file = opened_file(path)
        if file is None:
            raise RequestError(f"file must be a path, not {path!r}")
        if name is None:
            return cls(file=file, **options)
        require_formula(file, name)
        file_of_model = replace_models(file, options.pop("model")) if "model" in options else file
        return cls(file=file_of_model, model=name, **options)

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of all options, without the fields that an adapter adds."""
        return tuple(Options.model_fields)

    @classmethod
    def call_names(cls) -> tuple[str, ...]:
        """Return all names of the options that a call may set, aliases included."""
        return tuple(name for name in (*cls.option_names(), *ALIASES) if name not in AT_CREATION)

    @classmethod
    def by_name(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options under marith's names.

        An option is left out if it is None and None means "not set" for it. Raises RequestError for
        an option that is set under two names with different values.
        """
        return by_name(options)

    @classmethod
    def check_call(cls, options: Mapping[str, Any], others: Sequence[str] = ()) -> None:
        """Raise RequestError if a call has a name that is neither an option nor in `others`.

        A call must not have `file` or `engine`.
        """
        check_call(options, [*cls.call_names(), *others], cls.__name__)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Yield model, formula, and options that are not defaults. A file is shown as its path."""
        own = self.model_fields_set.difference(self.option_names(), _OF_FRAMEWORKS)
        for name in (*self.option_names(), *sorted(own)):
            field, value = type(self).model_fields[name], getattr(self, name)
            default = field.get_default(call_default_factory=True)
            if name in ("model", "formula") or value != default:
                yield field.alias or name, value.path if isinstance(value, PersonaFile) else value

    def __getstate__(self) -> dict[Any, Any]:
        """Return the state to pickle. Raises RequestError if an engine or constraints are set."""
        self._require_data()
        return super().__getstate__()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a copy that shares the loaded engine."""
        memo = {} if memo is None else memo
        memo[id(self.loaded_engine)] = self.loaded_engine
        return super().__deepcopy__(memo)

    @property
    def speaks_as(self) -> str:
        """The model's name in answers: the name of a formula of the file, or of the model."""
        return (self.file and self.file.formula_name) or self.model

    @property
    def faithful_formula(self) -> Formula:
        """The formula for a prompt with retrieved text."""
        return cached_objects.make_faithful(*self._meaning)

    def values(self) -> dict[str, Any]:
        """Return every option with its value."""
        return {name: getattr(self, name) for name in self.option_names()}

    def chosen(self) -> dict[str, Any]:
        """Return every option with its value as plain data, with the content of `file`.

        Raises RequestError for a loaded engine and for constraints, which are not data.
        """
        self._require_data()
        return {**self._data, "file": None if self.file is None else DATA.dump_python(self.file)}

    def _require_data(self) -> None:
        for name, problem in NO_DATA.items():
            if getattr(self, name):
                raise RequestError(problem)

    def identity(self) -> dict[str, Any]:
        """Return everything that determines a text, as plain data, for caches and observers.

        Unique names stand for a loaded engine and for functions.
        """
        options = self._data
        if self.loaded_engine is not None:
            options["engine"] = unique_name(self.loaded_engine)
        if self.constraints:
            options["constraints"] = [*map(unique_name, self.constraints)]
        return options

    @property
    def _data(self) -> dict[str, Any]:
        """Every option that is data, except `file`, whose content is in the other options."""
        return {
            name: json.loads(json.dumps(asdict(v))) if isinstance(v, Plan) else v
            for name, v in self.values().items()
            if name not in (*NO_DATA, "file")
        }

    def overridden(
        self, options: Mapping[str, Any], stop: str | Iterable[str] | None = None
    ) -> Options:
        """Return these options, overridden by the options of one call.

        Stop strings and terms of the call are added to the stop strings and terms of these options.
        If `model` is a formula of the file, that formula's options replace the former formula's. An
        option keeps its value if that value differs from the one that the former formula gave it.
        Raises RequestError for an unknown option, and for `file`, which is read when options are
        made.
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
            base = switch_persona(self.file, base, call, OptionFields)
            # The options already have the model of the formula.
            del call["model"]
        strings += read_stop(call.pop("stop", None))
        if isinstance(call.get("terms"), Mapping):
            call["terms"] = {**base["terms"], **call["terms"]}
        if strings:
            call["stop"] = list(dict.fromkeys([*base.get("stop", ()), *strings]))
        return Options(**{**base, **call})

    def known_context(self, base: int | None = None) -> int | None:
        """Return the number of tokens that every term can read, or None if it is not known.

        The numbers come from the loaded engine, these options, or the files of the models. `base`
        is the context length of the model, if the caller knows it.
        """
        from marith.scoring.weights.locate import context_length_of

        if self.loaded_engine is not None:
            base = self.loaded_engine.context_length
        base = base or self.context_length or context_length_of(self.model, self.revision)
        others = map(
            context_length_of, cached_objects.other_models(self.faithful_formula, self._meaning[1])
        )
        return base and min([base, *filter(None, others)])

    def retrieves(self, prompt: AnyPrompt, advice: str = "") -> bool:
        """Return whether `faithful` is set and `faithful_to` matches in a prompt.

        If it does not match, the log says so and gives `advice`, once for each pattern. Raises
        RequestError if `faithful` is set without `faithful_to`.
        """
        if not self.faithful:
            return False
        if self.faithful_to is None:
            problem = f"faithful is {self.faithful}, but faithful_to is not set"
            raise RequestError(f"{problem}; {_MATCHES_PASSAGES}")
        found = hides(self.faithful_to, to_prompt(prompt).messages)
        if not found:
            cached_objects.say_unmatched(self.faithful, self.faithful_to, advice or _PATTERN)
        return found

    def engine(self) -> Engine:
        """Return the engine that the process shares for this model and placement.

        The first call loads it. An engine that was passed as an option is returned unchanged.
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
        """Start a request on the engine. Blocks while weights load and while the engine is busy.

        `asked` has further fields of the request, as for the method `request`. Raises Busy if the
        engine is still busy after `max_retries` retries, or if the timeout would end before the
        next retry. Raises what `Engine.submit` raises.
        """
        # The timeout includes the time that the model takes to load.
        started = time.monotonic() if started is None else started
        request, engine, retry = self.request(prompt, **asked), self.engine(), 0
        while True:
            try:
                if request.inspect:
                    from marith.inspection.calls import submit_with_inspection

                    return submit_with_inspection(engine, request, started)
                return engine.submit(request, started)
            except Busy:
                from marith.engine.threads.deadline import Deadline

                pause, deadline = FIRST_PAUSE * 2**retry, Deadline.of(request.timeout, started)
                if retry == self.max_retries or pause >= deadline.left:
                    raise
                time.sleep(pause)
                retry += 1

    def sample(self, i: int) -> Self:
        """Return these options for sample `i` of a prompt. If they have a seed, `i` is added."""
        if i == 0 or self.seed is None:
            return self
        return self.model_copy(update={"seed": sample_seed(self.seed, i)})

    def deadline(self, started: float | None = None) -> Deadline:
        """Return the deadline of an answer requested now, or at `started` (time.monotonic)."""
        from marith.engine.threads.deadline import Deadline

        return Deadline.of(self.timeout, started)

    def request(self, prompt: AnyPrompt, **asked: Unpack[InspectedOptions]) -> Request:
        """Return the request for a prompt. The fields in `asked` override these options.

        Raises RequestError for `trusted` and `allowed`, because these options restrict what a call
        may set.
        """
        for name in ("trusted", "allowed"):
            if name in asked:
                advice = f"write Options({name}=…), and pass what the caller sets to overridden(…)"
                raise RequestError(f"request does not take {name}; {advice}")
        tools = asked.get("tools")
        if tools is not None and not self.steer_tools:
            asked["tools"] = replace(tools, steer=False)
        from_options: InspectedOptions = {
            "timeout": self.timeout,
            "template_options": self.chat_template_kwargs or None,
            "ban": cached_objects.ban(tuple(self.ban)),
            "constraints": self.constraints,
            "cache_salt": self.cache_salt,
            "steer_reasoning": self.steer_reasoning,
            "inspect": self.inspect,
        }
        texts, tokens = tuple(self.stop), tuple(self.stop_token_ids)
        ended = cached_objects.stop(
            self.max_tokens,
            texts,
            tokens,
            self.min_tokens,
            self.ignore_eos,
            self.max_reasoning_tokens,
        )
        formula, terms, *_ = self._meaning
        return Request(
            prompt,
            self.faithful_formula if self.retrieves(prompt) else formula,
            dict(terms),
            cached_objects.sampling(
                *(getattr(self, n) for n in _DRAWN), tuple(self.logit_bias.items())
            ),
            ended,
            self.speculation,
            **(from_options | asked),
        )
