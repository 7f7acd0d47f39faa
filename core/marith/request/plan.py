"""Plans of speculation: which terms draft, and which verify later."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from pydantic import ConfigDict, StrictInt

from marith.errors import FormulaError, RequestError, shown, suggestion
from marith.formula.meaning.binding import require_known
from marith.formula.text.term_data import read_formula
from marith.formula.tree.nodes import Formula
from marith.request.checks import whole

LENGTH = 4
# The maximum number of positions at which a term is evaluated at once.
MOST = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of speculation: which terms draft, and which verify later. It changes only the cost.

    `every` maps a term, by name or as formula text, to its speculative factor s (paper, section 4).
    The term is computed for s positions at a time; s − 1 of the tokens at these positions were
    sampled without the term. Other terms have s = 1, or `length` + 1 if the plan has drafts. A
    classifier is computed with its guide. If a term and the terms before it do not form a
    distribution, the term waits and is computed together with the next term.

    `drafted_by` are formulas that draft for the whole formula, the cheapest first, `length` tokens
    at a time.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    every: tuple[tuple[str, StrictInt], ...] = ()
    drafted_by: tuple[str, ...] = ()
    length: StrictInt | None = None

    def __post_init__(self) -> None:
        pairs = self.every.items() if isinstance(self.every, Mapping) else self.every
        try:
            named = [(_text(term, "a term in 'every'"), s) for term, s in pairs]
        except (TypeError, ValueError) as error:
            if isinstance(error, RequestError):
                raise
            raise RequestError(
                f"'every' must map terms to whole numbers, not {self.every!r}"
            ) from None
        subject = "the speculative factor of {!r}"
        every = tuple((term, whole(subject.format(term), s, 1, MOST)) for term, s in named)
        object.__setattr__(self, "every", every)
        if not isinstance(self.drafted_by, (list, tuple)):
            hint = "for one formula, write Plan.drafts(draft)"
            problem = f"drafted_by must be a list of formulas, not {shown(self.drafted_by)}"
            raise RequestError(f"{problem}; {hint}")
        drafts = tuple(_text(draft, "a draft") for draft in self.drafted_by)
        object.__setattr__(self, "drafted_by", drafts)
        for term, _ in every:
            if [name for name, _ in self.every].count(term) > 1:
                raise RequestError(f"the plan names {term!r} twice")
        if self.drafted_by:
            length = LENGTH if self.length is None else self.length
            length = whole("the length of a draft", length, 1, MOST - 1)
            object.__setattr__(self, "length", length)
        elif self.length is not None:
            raise RequestError(
                f"length {self.length!r} is the length of drafts, so it needs drafted_by"
            )

    @classmethod
    def factors(cls, factors: Mapping[str | Formula, int]) -> Plan:
        """Return a plan for algorithm 2 of the paper, with a factor s for each term.

        A term without a factor has s = 1.
        """
        if not isinstance(factors, Mapping):
            raise RequestError(f"factors must map terms to whole numbers, not {factors!r}")
        return cls(every=tuple(factors.items()))  # type: ignore[arg-type]  # texts after `__post_init__`

    @classmethod
    def drafts(cls, *drafts: str | Formula, length: int = LENGTH) -> Plan:
        """Return a plan in which `drafts` draft for the whole formula.

        The first draft is evaluated for every token. Every later draft verifies the draft before
        it, and is evaluated about twice in every `length` tokens. If a draft is also a term of the
        formula, the term then verifies with factor 1.

        Examples: `NGram("corpus.txt", order=4)`; `NGram(order=4, online=True)`, which copies from
        the prompt; a `Prompted` with a small model as `model=`; the name of a term.
        """
        if not drafts:
            raise RequestError("a plan of drafts must name at least one draft")
        return cls(drafted_by=drafts, length=length)  # type: ignore[arg-type]  # texts after `__post_init__`

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Return the plan that `to_json` wrote. Raises RequestError for an invalid plan."""
        names = [field.name for field in fields(cls)]
        try:
            given = json.loads(text)
            if not isinstance(given, dict):
                raise RequestError(f"a plan must be a JSON object, not {type(given).__name__}")
            if unknown := next((name for name in given if name not in names), None):
                advice = suggestion(unknown, names, f"; it has {', '.join(names)}")
                raise RequestError(f"a plan has no {unknown!r}{advice}")
            return cls(**given)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"invalid plan: {str(error)[:200]}: {shown(text)}") from None

    def to_json(self) -> str:
        """Return the plan as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)


def formula_in_plan(text: str, names: Collection[str]) -> Formula:
    """Parse a formula in a plan. Raises RequestError if it is invalid or has an unknown name."""
    try:
        formula = read_formula(text)
        require_known(formula, names)
        return formula
    except FormulaError as error:
        raise RequestError(f"the plan names {text!r}: {error.problem}") from None


def check_speculation(name: str, value: Any) -> Plan | Literal["auto"] | None:
    """Check that a value is a plan, "auto" or None."""
    if not (value is None or isinstance(value, Plan) or value == "auto"):
        raise RequestError(f"{name} must be None, 'auto' or a Plan, not {shown(value)}")
    plan: Plan | Literal["auto"] | None = value
    return plan


def read_speculation(value: Any) -> Plan | Literal["auto"] | None:
    """Return a plan, "auto" or None. A plan may be given as JSON or as a mapping; "none" is None.

    Raises RequestError for any other value.
    """
    match value:
        case None | "none":
            return None
        case "auto":
            return "auto"
        case Plan():
            return value
        case str() if value.lstrip().startswith("{"):
            return Plan.from_json(value)
        case Mapping():
            try:
                return Plan.from_json(json.dumps(dict(value)))
            except TypeError:
                pass
    raise RequestError(f"speculation must be 'auto', None, 'none' or a Plan, not {shown(value)}")


def _text(term: Any, name: str) -> str:
    """Return a term of a plan as text. Raises RequestError unless it is a text or a formula."""
    if not isinstance(term, (str, Formula)):
        raise RequestError(f"{name} must be a text or a formula, not {shown(term)}")
    return str(term)
