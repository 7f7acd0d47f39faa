"""From a request to `Prepared`: formula → plan → scorers → readings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from marith.engine.threads import workers
from marith.engine.threads.deadline import NEVER, Deadline
from marith.errors import ContextOverflow, RequestError
from marith.formula.meaning.binding import BARE, BARE_MODEL, bind, resolve
from marith.formula.meaning.checking import check
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.terms import Prompted, Term
from marith.request.plan import Plan, planned
from marith.request.prompt import Prompt, to_prompt
from marith.request.request import Request, Speculation
from marith.scoring.memory import Planned
from marith.scoring.prompting.templates import to_tokens, turn_marks
from marith.scoring.registry import Registry
from marith.scoring.scorer import Demand, Reading, Scorer
from marith.speculation.execution_plan import LOOKUP, ExecutionPlan


@dataclass(frozen=True)
class Prepared:
    """The execution plan of a request with the scorer and the reading of each term.

    `room` is how many tokens the shortest context of a term still holds; `rooms` says the same
    of each draft that has a context. `opened` says that the prompt, as the bare model reads it,
    ends where reasoning has begun. `loaded` is what was loaded for its terms, which stays while
    this holds it. `width` is the number of tokens there are. `lanes` say under which name a scorer
    keeps what it has read for a term; requests of the same `salt` share prefixes. At most `more`
    tokens follow the prompt, of which `prefix` are given. A text without a grammar ends before one
    of `turn_marks` too.
    """

    plan: ExecutionPlan
    scorers: Mapping[Term, Scorer]
    readings: Mapping[Term, Reading]
    prompt_tokens: int
    room: int
    rooms: Mapping[Term, int]
    opened: bool = False
    loaded: tuple[object, ...] = ()
    width: int = 1
    deadline: Deadline = NEVER
    more: int = 0
    salt: str | None = None
    prefix: tuple[int, ...] = ()
    turn_marks: tuple[str, ...] = ()
    lanes: Mapping[Term, Hashable] = field(init=False)

    def __post_init__(self) -> None:
        own: dict[Term, Hashable] = defaultdict(object)  # what is read for one job is no other's
        lanes = {term: own[_read_by(term)] for term in self.plan.all_terms}
        object.__setattr__(self, "lanes", lanes)

    @cached_property
    def texts(self) -> Sequence[tuple[Scorer, Planned]]:
        """What each of its lanes will hold, once: terms may share one."""
        texts = []
        for term in {self.lanes[term]: term for term in self.readings}.values():
            scorer = self.scorers[term]
            demand = Demand(term, self.readings[term], self.more, self.salt)
            if (text := scorer.planned(demand)) is not None:
                texts.append((scorer, text))
        return texts


def prepare(
    request: Request,
    registry: Registry,
    loading: AbstractContextManager[object],
    deadline: Deadline = NEVER,
    beside: Formula | None = None,
) -> Prepared:
    """Bind the formula, load what it names, read the prompt, and see what room is left.

    Every error of a request is raised here, DeadlineExceeded too. New checkpoints are loaded one at
    a time, under `loading`. The terms of a formula `beside` it are evaluated too.
    """
    prompt, prefix = _prompt(request, registry), _prefix(request, registry)
    plan, bare = bound(request, beside)
    deadline.check()
    scorers, loaded = _scorers(plan.all_terms, registry, loading)
    registry.warn_of_rounding(plan.whole)
    readings = _readings(plan, scorers, prompt, deadline)
    visible = _visible(bare, readings, registry, prompt)
    unread = dict.fromkeys((draft for draft in plan.drafts if draft not in readings), 0)
    with_context = [t for t in readings if t in plan.terms or t not in plan.proposers]
    rooms = {term: scorers[term].room(readings[term]) for term in with_context} | unread
    room = _room([rooms[term] for term in plan.terms], prefix)
    return Prepared(
        plan,
        scorers,
        readings,
        len(visible) + len(prefix),
        room,
        {draft: rooms[draft] for draft in plan.drafts if draft in rooms},
        registry.vocabulary.opens_reasoning(visible),
        loaded,
        registry.vocabulary.size,
        deadline,
        min(len(prefix) + (request.stop.max_tokens or room), room),
        request.cache_salt,
        prefix,
        _turn_marks(plan, prompt, registry),
    )


def _turn_marks(plan: ExecutionPlan, prompt: Prompt, registry: Registry) -> tuple[str, ...]:
    """Return the marks that begin another turn; log once that the model has no template."""
    marks = turn_marks(prompt, registry.vocabulary)
    if marks and any(isinstance(t, Prompted) and t.template is None for t in plan.terms):
        registry.vocabulary.say_it_has_no_template()
    return marks


def _prompt(request: Request, registry: Registry) -> Prompt:
    """The prompt; one of tokens with their text, for what reads no tokens. Raises RequestError."""
    tools = request.tools.definitions if request.tools else ()
    if request.tools is not None and request.tools.choice == "auto":
        registry.warn_of_tools()
    prompt = to_prompt(request.prompt, tools, request.template_options)
    if not prompt.tokens:
        return prompt
    _require_known(prompt.tokens, registry, "the prompt")
    text = registry.vocabulary.decode(prompt.tokens)
    return replace(prompt, messages=({"role": "user", "content": text},))


def _room(rooms: Sequence[int], prefix: Sequence[int]) -> int:
    """How many tokens the shortest context holds. ContextOverflow for none after the prefix."""
    room = min(rooms)
    if prefix and len(prefix) >= room:
        problem = f"the prefix has {len(prefix)} tokens, and after the prompt there is room for"
        raise ContextOverflow(f"{problem} {room}, one of which is the answer's")
    return room


def _prefix(request: Request, registry: Registry) -> tuple[int, ...]:
    """The tokens that the answer begins with. Raises RequestError for what are no such tokens."""
    given, vocabulary = request.prefix, registry.vocabulary
    tokens = tuple(vocabulary.encode(given)) if isinstance(given, str) else tuple(given)
    _require_known(tokens, registry, "the prefix")
    _require_known([*dict(request.sampling.logit_bias)], registry, "logit_bias")
    _require_known(request.stop.token_ids, registry, "token_ids")
    if tokens and (ended := request.stop.ends(vocabulary.eos_ids).intersection(tokens)):
        raise RequestError(f"the prefix has token {min(ended)}, which ends a text")
    return tokens


def _require_known(tokens: Sequence[int], registry: Registry, where: str) -> None:
    size = registry.vocabulary.size
    if tokens and max(tokens) >= size:
        raise RequestError(f"{where} has token {max(tokens)}, and the model has {size} tokens")


def bound(request: Request, beside: Formula | None = None) -> tuple[ExecutionPlan, Formula]:
    """The execution plan of a request, and the bare model. Raises FormulaError or RequestError.

    `beside` has the names of the request's formula, and `M`, alone.
    """
    if beside is None and not request.steered:
        beside = Name(BARE)
    formula, terms = request.formulas
    return _bound(formula, tuple(terms.items()), request.speculation, beside)


@lru_cache(maxsize=64)  # many requests have the same formula
def _bound(
    formula: Formula,
    terms: tuple[tuple[str, Formula], ...],
    speculation: Speculation,
    beside: Formula | None,
) -> tuple[ExecutionPlan, Formula]:
    """Only the names that the formula and the plan use are resolved."""
    given = dict(terms)
    names = resolve(given, formula, *_planned(speculation, {BARE, *given}))
    return plan_of(formula, names, speculation, beside), names[BARE]


def plan_of(
    formula: Formula,
    names: Mapping[str, Formula],
    speculation: Speculation = None,
    beside: Formula | None = None,
) -> ExecutionPlan:
    """A formula, checked and bound. Raises FormulaError or RequestError."""
    check(formula, names)
    aside = None if beside is None else bind(beside, names)
    return ExecutionPlan.of(formula, names, speculation, aside)


def _scorers(
    terms: Sequence[Term], registry: Registry, loading: AbstractContextManager[object]
) -> tuple[dict[Term, Scorer], tuple[object, ...]]:
    """The scorer of each term, and what was loaded for the terms, which stays while it is held.

    What is not loaded yet is loaded by one thread at a time, and never on a caller's own.
    """

    def load() -> tuple[dict[Term, Scorer], tuple[object, ...]]:
        scorers = {term: registry.scorer_of(term) for term in terms}
        return scorers, tuple(scorer.loaded(term) for term, scorer in scorers.items())

    try:
        held = [registry.held_for(term) for term in terms]
    except KeyError:
        with loading:
            return workers.run_in_thread(load)
    scorers, loaded = load()
    return scorers, (*held, *loaded)


def _planned(speculation: Speculation, names: Collection[str]) -> Iterator[Formula]:
    """The formulas that a plan names. Raises RequestError for a name that is not in `names`."""
    if isinstance(speculation, Plan):
        for text in (*speculation.drafted_by, *(term for term, _ in speculation.every)):
            yield planned(text, names)


def _readings(
    plan: ExecutionPlan, scorers: Mapping[Term, Scorer], prompt: Prompt, deadline: Deadline
) -> dict[Term, Reading]:
    """The prompt as each term reads it. A draft that cannot is left out: no text needs it."""
    readings: dict[Term, Reading] = {}
    for term in plan.all_terms:
        deadline.check()
        try:
            readings[term] = scorers[term].read(term, prompt)
        except RequestError as error:
            may_be_left_out = isinstance(error, ContextOverflow) or term == LOOKUP
            if term in plan.terms or not may_be_left_out:
                raise
    deadline.check()
    return readings


def _visible(
    bare: Formula, readings: Mapping[Term, Reading], registry: Registry, prompt: Prompt
) -> Sequence[int]:
    """The prompt's tokens as the bare model reads it."""
    term = bare if isinstance(bare, Prompted) and bare.model is None else BARE_MODEL
    reading = readings.get(term)
    return to_tokens(term, prompt, registry.vocabulary) if reading is None else [*map(int, reading)]


def _read_by(term: Term) -> Term:
    """The term whose lane it reads in: what leaves a model early reads as the model does."""
    if isinstance(term, Prompted) and term.exit_layer is not None:
        return replace(term, exit_layer=None)
    return term
