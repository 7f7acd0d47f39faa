"""What a caller asks for, and how it becomes a job: text → formula → stages → readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, TypeAlias, TypedDict

from marith.decoding.banning import Ban
from marith.decoding.grammar import Grammar
from marith.decoding.sampling import Sampling
from marith.decoding.stopping import Stop
from marith.engine import workers
from marith.engine.plan import Plan
from marith.engine.stages import LOOKUP, Stages
from marith.engine.tools import Tools
from marith.errors import ContextOverflow, FormulaError, RequestError, shown
from marith.formula.binding import BARE, Terms, parse, resolve
from marith.formula.checking import check
from marith.formula.nodes import Formula
from marith.formula.scalars import finite, whole
from marith.formula.terms import Prompted, Term, check_template_options
from marith.formula.trust import restricted
from marith.plain_data import require_shallow
from marith.scoring.panel import Panel
from marith.scoring.prompted import PromptedScorer
from marith.scoring.scorer import Message, Prompt, Reading, Scorer
from marith.scoring.templates import to_prompt, to_tokens


class RequestOptions(TypedDict, total=False):
    """What a request may hold beside its prompt, formula, terms, sampling, stop and speculation."""

    timeout: float | None
    grammar: Grammar | None
    tools: Tools | None
    logprobs: int | None
    template_options: Mapping[str, Any] | None
    ban: Ban | None
    trusted: bool


Speculation: TypeAlias = "Plan | Literal['auto'] | None"


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt, the formula that answers it, and how its tokens are drawn and stopped.

    `grammar` says what the answer may be, `ban` what it may not say, `tools` what it may call;
    `logprobs` asks for the log-probability of each token, and of so many of the likeliest in its
    place; `template_options` are those of the terms' chat templates. After `timeout` seconds,
    waiting included, an unfinished request is given up and its caller gets DeadlineExceeded.
    Unless it is `trusted`, the text in `formula` and `terms` is read as that of others.
    """

    prompt: str | Sequence[Message]
    formula: str | Formula = BARE
    terms: Terms | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: Stop = field(default_factory=Stop)
    speculation: Speculation = "auto"
    timeout: float | None = None
    grammar: Grammar | None = None
    tools: Tools | None = None
    logprobs: int | None = None
    template_options: Mapping[str, Any] | None = None
    ban: Ban | None = None
    trusted: bool = True

    def __post_init__(self) -> None:
        needed = {"sampling": Sampling, "stop": Stop}
        kinds = {**needed, "grammar": Grammar, "tools": Tools, "ban": Ban}
        for name, kind in kinds.items():
            value: Any = getattr(self, name)
            may_lack = name not in needed and value is None
            if not (may_lack or isinstance(value, kind)):
                raise RequestError(f"{name} is a {kind.__name__}, not {shown(value)}")
        options = self.template_options
        if self.logprobs is not None:
            object.__setattr__(self, "logprobs", whole("logprobs", self.logprobs, 0))
        if options is not None and not isinstance(options, Mapping):
            raise RequestError(f"template_options is a mapping, not {shown(options)}")
        require_shallow(options, "template_options")
        for name in options or ():
            if not isinstance(name, str):
                raise RequestError(f"a template option is called by a name, not {shown(name)}")
        try:
            check_template_options(options or ())
        except FormulaError as error:
            raise RequestError(error.problem) from None
        if not self.steered and isinstance(self.speculation, Plan):
            asked = "None or 'auto' for speculation"
            raise RequestError(f"tools without steer take {asked}, not {self.speculation}")
        if not (self.speculation in (None, "auto") or isinstance(self.speculation, Plan)):
            given = shown(self.speculation)
            raise RequestError(f"speculation is None, 'auto' or a Plan, not {given}")
        object.__setattr__(self, "timeout", check_timeout(self.timeout))
        if not isinstance(self.trusted, bool):
            raise RequestError(f"trusted is True or False, not {shown(self.trusted)}")
        if not self.trusted:
            formula, terms = restricted(self.formula, self.terms)
            object.__setattr__(self, "formula", formula)
            object.__setattr__(self, "terms", terms)

    @property
    def steered(self) -> bool:
        """Whether the formula speaks everywhere, inside calls too."""
        return self.tools is None or self.tools.steer


def check_timeout(timeout: Any) -> float | None:
    """The seconds that a caller waits, None for no end. Raises RequestError for anything else."""
    number = finite(timeout)
    if timeout is not None and not (number and number > 0):
        problem = "timeout is a finite number of seconds above 0"
        raise RequestError(f"{problem}, not {shown(timeout)}")
    return number


StagesOf: TypeAlias = (
    "Callable[[Formula, tuple[tuple[str, Formula], ...], Plan | Literal['auto'] | None, bool],"
    " Stages]"
)


@dataclass(frozen=True, slots=True)
class Reader:
    """The stages of a request with the scorer and the reading of each term.

    `room` is how many tokens the shortest context of a term still holds; `rooms` says the same
    of each draft, which is asked for no more than that. `opened` says that the prompt, as the
    bare model reads it, ends where reasoning has begun. `loaded` is what was loaded for its terms,
    which stays while this holds it.
    """

    stages: Stages
    scorers: Mapping[Term, Scorer]
    readings: Mapping[Term, Reading]
    prompt_tokens: int
    room: int
    rooms: Mapping[Term, int]
    opened: bool = False
    loaded: tuple[object, ...] = ()

    @classmethod
    def open(
        cls,
        request: Request,
        panel: Panel,
        loading: AbstractContextManager[object],
        stages_of: StagesOf,
    ) -> Reader:
        """Check, bind and read. Everything that can be wrong with a request is said here.

        Checkpoints that no term has named before are loaded in turns, under `loading`. `stages_of`
        checks and binds, and may remember what it made of the same formula before.
        """
        tools = request.tools.definitions if request.tools else ()
        prompt = to_prompt(request.prompt, tools, request.template_options)
        asked = parse(request.formula)
        how = request.speculation, request.steered
        try:
            known = resolve(request.terms, asked, *_planned(request.speculation))
            stages = stages_of(asked, tuple(sorted(known.items(), key=itemgetter(0))), *how)
        except (FormulaError, RequestError):
            everything = resolve(request.terms)  # the same, said with all names that there are
            stages_of(asked, tuple(everything.items()), *how)
            raise
        scorers, loaded = _scorers(stages.voices, panel, loading)
        readings = {term: scorers[term].read(term, prompt) for term in stages.terms}
        room = min(_room(scorers[term], readings[term]) for term in stages.terms)
        rooms: dict[Term, int] = {}
        for draft in stages.drafts:
            try:
                readings[draft] = scorers[draft].read(draft, prompt)
                rooms[draft] = _room(scorers[draft], readings[draft])
            except RequestError as error:  # nothing hangs on a draft that cannot help here
                if not (isinstance(error, ContextOverflow) or draft == LOOKUP):
                    raise
                rooms[draft] = 0
        visible = _visible(known[BARE], readings, panel, prompt)
        opened = panel.vocabulary.opens_reasoning(visible)
        return cls(stages, scorers, readings, len(visible), room, rooms, opened, loaded)


def stages_of(
    asked: Formula,
    known: tuple[tuple[str, Formula], ...],
    speculation: Plan | Literal["auto"] | None,
    steered: bool,
) -> Stages:
    """A formula, checked and bound, its names as `known`. Raises FormulaError or RequestError."""
    names = dict(known)
    check(asked, names)
    return Stages.of(asked, names, speculation, None if steered else names[BARE])


def _scorers(
    terms: Sequence[Term], panel: Panel, loading: AbstractContextManager[object]
) -> tuple[dict[Term, Scorer], tuple[object, ...]]:
    """The scorer of each term, and what was loaded for the terms, which stays while it is held.

    What is not here yet is loaded in turns, and on no thread of a caller's.
    """

    def found() -> tuple[dict[Term, Scorer], tuple[object, ...]]:
        scorers = {term: panel.scorer_of(term) for term in terms}
        return scorers, tuple(scorer.loaded(term) for term, scorer in scorers.items())

    if all(panel.has(term) for term in terms):
        return found()
    with loading:
        return workers.apart(found)


def _planned(speculation: Speculation) -> Iterator[Formula]:
    """The formulas that a plan names."""
    if isinstance(speculation, Plan):
        for text in (*speculation.drafted_by, *(term for term, _ in speculation.every)):
            with suppress(FormulaError):  # the plan is checked with its stages
                yield parse(text)


def _room(scorer: Scorer, reading: Reading) -> int:
    """How many tokens more the context of a language model holds."""
    if not isinstance(scorer, PromptedScorer):
        return 1 << 30
    return scorer.context_length - len(reading)


def _visible(
    bare: Formula, readings: Mapping[Term, Reading], panel: Panel, prompt: Prompt
) -> Sequence[int]:
    """The prompt's tokens as the bare model reads it."""
    seen_by = bare if isinstance(bare, Prompted) and bare.model is None else Prompted()
    known = readings.get(seen_by)
    return to_tokens(seen_by, prompt, panel.vocabulary) if known is None else [*map(int, known)]
