"""Prepare a request in four stages: formula → plan → scorers → readings."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache

from marith.answers.detectors import ends_of
from marith.engine.threads import workers
from marith.engine.threads.deadline import NEVER, Deadline
from marith.engine.token_budget import TokenBudget, budget_of
from marith.errors import ContextOverflow, RequestError
from marith.formula.meaning.binding import BARE, BARE_MODEL, bind, resolve
from marith.formula.meaning.checking import check
from marith.formula.meaning.large_factors import extreme
from marith.formula.meaning.leaves import leaves
from marith.formula.tree.factors import Varying
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.operators import where
from marith.formula.tree.printing import unquoted, without_texts
from marith.formula.tree.terms import Calling, Prompted, Reasoning, Term
from marith.request.plan import Plan, formula_in_plan
from marith.request.prompt import Prompt, to_prompt
from marith.request.request import Request, Speculation
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.questions import Reading
from marith.scoring.prompting.templates import to_tokens, turn_marks
from marith.scoring.registry import Registry
from marith.scoring.scorer import Scorer
from marith.scoring.term_lanes import TermLanes
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.speculation.execution_plan import LOOKUP, ExecutionPlan

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A request that is ready to run: its execution plan, its lanes and its token budget.

    `prompt` has the tokens of the prompt as the bare model reads it. The text begins with the
    tokens of `prefix`. `opened` is True if the prompt ends inside of reasoning. A text without a
    grammar also ends where any of `turn_marks` begins. `vocab_size` is the number of tokens in the
    vocabulary. `warnings` are sentences for the caller, about the formula and the token budget.
    """

    plan: ExecutionPlan
    lanes: TermLanes
    budget: TokenBudget
    vocab_size: int
    deadline: Deadline
    prompt: Sequence[int]
    prefix: tuple[int, ...]
    opened: bool
    turn_marks: tuple[str, ...]
    warnings: tuple[str, ...]

    def texts(self, more: int) -> Sequence[tuple[Scorer, LaneText]]:
        """Return the scorer and the text of each lane, with `more` tokens after the prompt."""
        return self.lanes.lane_texts(more)

    def at_most(self, more: int) -> Prepared:
        """Return this request with a limit of `more` tokens after the prompt."""
        return replace(self, budget=replace(self.budget, more=more, open_ended=False))


def prepare(
    request: Request,
    registry: Registry,
    loading: AbstractContextManager[object],
    deadline: Deadline = NEVER,
    also: Formula | None = None,
) -> Prepared:
    """Bind the formula, load its models, read the prompt, and compute the token budget.

    Errors of the formula, the models, the prompt and the token budget are raised here, and
    DeadlineExceeded. A thread holds `loading` while it loads checkpoints. The terms of the formula
    `also` are evaluated too, for an inspection.
    """
    vocabulary = registry.vocabulary
    prompt, prefix = _prompt(request, registry), _prefix(request, registry)
    if registry.over_bytes and request.speculation == "auto":
        # Over bytes, a drafted byte costs as many passes as any other byte.
        request = replace(request, speculation=None)
    plan, bare, warnings = bind_request(request, also)
    deadline.check()
    scorers, loaded = _scorers(plan.all_terms, registry, loading)
    registry.warnings.of_rounding(plan.whole)
    plan = aligned_plan(plan, scorers)
    if not prompt.tokens and any(_reads_as_chat(term) for term in plan.terms):
        registry.warnings.of_template()
    readings = _readings(plan, scorers, prompt, deadline)
    visible = _visible(bare, readings, registry, prompt)
    if marked := [term for term in readings if isinstance(term, (Reasoning, Calling))]:
        # Marks of reasoning and calls are looked for in the text as the bare model reads it.
        seen = replace(prompt, tokens=tuple(visible))
        readings |= {term: scorers[term].read(term, seen) for term in marked}
    budget = budget_of(plan, scorers, readings, prefix, request, len(visible))
    for warning in budget.warnings:
        registry.warnings.once("max_tokens", warning)
    return Prepared(
        plan,
        TermLanes.of(scorers, readings, loaded, request.cache_salt),
        budget,
        vocab_size=vocabulary.size,
        deadline=deadline,
        prompt=visible,
        prefix=prefix,
        opened=vocabulary.opens_reasoning(visible),
        turn_marks=turn_marks(prompt, vocabulary),
        warnings=(*warnings, *budget.warnings, *_warnings_of_limits(request, registry)),
    )


def _prompt(request: Request, registry: Registry) -> Prompt:
    """Return the prompt. Raises RequestError for an invalid prompt.

    The prompt lists no tools if no tool may be called, because a model that sees tools calls them.
    A prompt of tokens also gets a text, for terms that read text.
    """
    tools = request.tools.definitions if request.tools and request.tools.callable else ()
    if request.tools is not None and request.tools.choice == "auto":
        registry.warnings.of_tools()
    options, tool_format = request.template_options, registry.vocabulary.tool_format
    if request.stop.max_reasoning_tokens == 0 and tool_format.switch is not None:
        options = {tool_format.switch: False, **(options or {})}
    prompt = to_prompt(request.prompt, tools, options)
    if not prompt.tokens:
        return prompt
    vocabulary = registry.vocabulary
    vocabulary.require_known(prompt.tokens, "the prompt")
    text = vocabulary.decode(prompt.tokens)
    if registry.over_bytes:
        written = prompt.tokens[int(prompt.tokens[0] == vocabulary.start_id) :]
        if vocabulary.encode(text) != [*written]:
            raise RequestError(f"the prompt is bytes that are not a text in UTF-8: {text[:60]!r}")
    return replace(prompt, messages=({"role": "user", "content": text},))


def _warnings_of_limits(request: Request, registry: Registry) -> list[str]:
    """Return a warning if the base model does not reason, so that a limit has no effect."""
    thinking = registry.vocabulary.tool_format.thinking
    if request.stop.max_reasoning_tokens is None or thinking is not None:
        return []
    return [registry.warnings.of_reasoning()]


def _prefix(request: Request, registry: Registry) -> tuple[int, ...]:
    """Return the tokens that the answer begins with. Raises RequestError for invalid tokens."""
    prefix, vocabulary = request.prefix, registry.vocabulary
    tokens = tuple(vocabulary.encode(prefix)) if isinstance(prefix, str) else tuple(prefix)
    vocabulary.require_known(tokens, "the prefix")
    # A request cannot check its tokens itself, because it does not know the vocabulary.
    if registry.over_bytes and request.sampling.logit_bias:
        raise RequestError(
            "logit_bias names tokens, and this engine is over bytes; write stop strings, a grammar "
            "or a ban instead"
        )
    vocabulary.require_known([*dict(request.sampling.logit_bias)], "logit_bias")
    vocabulary.require_known(request.stop.token_ids, "token_ids")
    if tokens and (ended := ends_of(request, vocabulary).intersection(tokens)):
        raise RequestError(f"the prefix has token {min(ended)}, which ends a text")
    return tokens


def bind_request(
    request: Request, also: Formula | None = None
) -> tuple[ExecutionPlan, Formula, tuple[str, ...]]:
    """Return the execution plan of a request, the bare model, and warnings about the formula.

    The terms of `also` are evaluated too. It may use `M` and the names of the request's formula.
    Raises FormulaError or RequestError.
    """
    formula, terms = request.formulas
    return _bound(formula, tuple(terms.items()), request.speculation, request.unsteered, also)


# Many requests have the same formula.
@lru_cache(maxsize=64)
def _bound(
    formula: Formula,
    terms: tuple[tuple[str, Formula], ...],
    speculation: Speculation,
    unsteered: tuple[Varying, ...],
    also: Formula | None,
) -> tuple[ExecutionPlan, Formula, tuple[str, ...]]:
    """Resolve the names that the formula and the plan use, and make the execution plan.

    A warning about factors that are too large is logged and returned, without the texts of terms.
    """
    by_name = dict(terms)
    names = resolve(by_name, formula, *_formulas_in_plan(speculation, {BARE, *by_name}))
    plan = plan_of(formula, names, speculation, unsteered, also)
    warnings: tuple[str, ...] = ()
    if warning := extreme(bind(formula, names), names):
        warnings = (f"{without_texts(formula)}: {unquoted(warning)}",)
        workers.log(_log, logging.WARNING, "%s", *warnings)
    return plan, names[BARE], warnings


def plan_of(
    formula: Formula,
    names: Mapping[str, Formula],
    speculation: Speculation = None,
    unsteered: Sequence[Varying] = (),
    also: Formula | None = None,
) -> ExecutionPlan:
    """Return the execution plan of a formula. Raises FormulaError or RequestError.

    Where one of the factors `unsteered` is above zero, `M` replaces the formula.
    """
    check(formula, names)
    if formula != Name(BARE):
        for part in unsteered:
            formula = where(part > 0, Name(BARE), formula)
            check(formula, names)
    return ExecutionPlan.of(
        formula, names, speculation, [] if also is None else leaves(bind(also, names))
    )


def _scorers(
    terms: Sequence[Term], registry: Registry, loading: AbstractContextManager[object]
) -> tuple[dict[Term, Scorer], dict[Term, object]]:
    """Return the scorer of each term, and the object that it has loaded for the term, if any.

    Missing models are loaded by one thread at a time, and never on a caller's own thread.
    """
    try:
        found = [registry.find(term) for term in terms]
    except KeyError:
        with loading:
            found = workers.run_in_thread(lambda: [registry.load(term) for term in terms])
    scorers = {term: scorer for term, (scorer, _) in zip(terms, found, strict=True)}
    return scorers, {term: own for term, (_, own) in zip(terms, found, strict=True)}


def aligned_plan(plan: ExecutionPlan, scorers: Mapping[Term, Scorer]) -> ExecutionPlan:
    """Return the plan, changed if a term of its formula lacks tokens of the base model."""
    found = [(term, scorers[term]) for term in plan.terms]
    lacking = [
        (term, scorer.lacking, scorer.base_ends)
        for term, scorer in found
        if isinstance(scorer, PromptedScorer) and scorer.lacking is not None
    ]
    return _aligned_plan(plan, tuple(lacking)) if lacking else plan


# Texts of one plan are composed together, so equal plans must be one object.
@lru_cache(maxsize=64)
def _aligned_plan(
    plan: ExecutionPlan, lacking: tuple[tuple[Term, tuple[int, ...], tuple[int, ...]], ...]
) -> ExecutionPlan:
    [_, _, ends], *_ = lacking
    return plan.aligned({term: tokens for term, tokens, _ in lacking}, ends)


def _formulas_in_plan(speculation: Speculation, names: Collection[str]) -> Iterator[Formula]:
    """Yield the formulas that a plan names. Raises RequestError for an unknown name."""
    if isinstance(speculation, Plan):
        for text in (*speculation.drafted_by, *(term for term, _ in speculation.every)):
            yield formula_in_plan(text, names)


def _readings(
    plan: ExecutionPlan, scorers: Mapping[Term, Scorer], prompt: Prompt, deadline: Deadline
) -> dict[Term, Reading]:
    """Return the prompt as each term reads it.

    A draft that cannot read the prompt is left out, because no text needs a draft.
    """
    readings: dict[Term, Reading] = {}
    for term in plan.all_terms:
        deadline.check()
        try:
            readings[term] = scorers[term].read(term, prompt)
        except RequestError as error:
            # Nobody asked for prompt lookup, so none of its errors concerns the caller.
            may_be_left_out = isinstance(error, ContextOverflow) or term == LOOKUP
            if term in plan.terms or not may_be_left_out:
                raise
    deadline.check()
    return readings


def _visible(
    bare: Formula, readings: Mapping[Term, Reading], registry: Registry, prompt: Prompt
) -> Sequence[int]:
    """Return the prompt as the bare model reads it, in tokens of the engine."""
    term = bare if isinstance(bare, Prompted) and bare.model is None else BARE_MODEL
    # Over bytes, a reading has the tokens of the term's own model.
    reading = None if registry.over_bytes else readings.get(term)
    return to_tokens(term, prompt, registry.vocabulary) if reading is None else [*map(int, reading)]


def _reads_as_chat(term: Term) -> bool:
    """Return True if the term reads messages through the chat template of the base model."""
    return isinstance(term, Prompted) and term.model is None and term.template is None
