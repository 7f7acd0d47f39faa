"""The number of tokens that a text may have: contexts, `max_tokens`, and the prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marith.errors import ContextOverflow
from marith.formula.tree.terms import Term
from marith.request.completion import LengthWarning
from marith.request.request import Request
from marith.request.stop import Stop
from marith.scoring.passes.questions import Reading
from marith.scoring.scorer import Scorer
from marith.speculation.execution_plan import ExecutionPlan

_DEFAULT_TOKENS = Stop().max_tokens


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The number of tokens that a text may have.

    `prompt_tokens` is the number of tokens of the prompt, as the bare model reads it. `shortest` is
    the number of tokens that fit after the prompt into the contexts of all terms, and `of_drafts`
    has the number that fits into the context of each draft. The text, with the prefix, will have at
    most `more` tokens. `warnings` say that `max_tokens` does not fit; its default causes no
    warning. With `open_ended`, the caller has set no `max_tokens`.
    """

    prompt_tokens: int
    shortest: int
    of_drafts: Mapping[Term, int]
    more: int
    warnings: tuple[str, ...] = ()
    open_ended: bool = False


def budget_of(
    plan: ExecutionPlan,
    scorers: Mapping[Term, Scorer],
    readings: Mapping[Term, Reading],
    prefix: Sequence[int],
    request: Request,
    prompt_tokens: int,
) -> TokenBudget:
    """Return the token budget after a prompt of `prompt_tokens` tokens.

    Raises ContextOverflow if no token fits after the prefix.
    """
    # A draft that cannot read the prompt has no room, so it never drafts.
    unread = dict.fromkeys((draft for draft in plan.drafts if draft not in readings), 0)
    with_context = [t for t in readings if t in plan.terms or t not in plan.proposers]
    left = {term: scorers[term].tokens_left(readings[term]) for term in with_context} | unread
    shortest = min(left[term] for term in plan.terms)
    if prefix and len(prefix) >= shortest:
        problem = f"the prefix has {len(prefix)} tokens, and only {shortest} fit after the prompt"
        raise ContextOverflow(f"{problem}: at least one token of the answer must fit, too")
    of_drafts = {draft: left[draft] for draft in plan.drafts if draft in left}
    asked, fits = request.stop.max_tokens, shortest - len(prefix)
    warnings: tuple[str, ...] = ()
    # A caller who leaves `max_tokens` at its default has not asked for this number of tokens.
    if asked is not None and asked > fits and asked != _DEFAULT_TOKENS:
        warnings = (LengthWarning.of(asked, fits),)
    more = min(len(prefix) + (asked or shortest), shortest)
    return TokenBudget(prompt_tokens, shortest, of_drafts, more, warnings, asked is None)
