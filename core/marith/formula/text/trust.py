"""Limits of untrusted text: it may combine names that the application defined.

Only text is untrusted. `Formula` objects and terms come from the application, and are accepted
without a check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from marith.errors import FormulaError, shown
from marith.formula.meaning.binding import bind, resolve
from marith.formula.text.calls import BARE, check_allowed
from marith.formula.text.parsing import parse_text
from marith.formula.text.term_data import Terms, checked_terms, is_data, read_term
from marith.formula.tree.factors import Varying
from marith.formula.tree.node import descend
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.terms import Prompted, Term

# The characters of a formula and of the texts of its terms together.
MOST_LETTERS = 4_000
MOST_NODES = 500
# Each term adds a row to every forward pass.
MOST_TERMS = 16
# Each factor that depends on the context is computed for every token.
MOST_FACTORS = 32
# The limits are in the order of the counts in `_check_size`.
LIMITS = (MOST_NODES, MOST_FACTORS, MOST_TERMS)


def parse(
    text: str | Formula,
    terms: Terms | None = None,
    trusted: bool = True,
    allowed: Collection[str] = (),
) -> Formula:
    """Return the formula of a text. If there are `terms`, each name is replaced by its term.

    Text that is not `trusted` may contain only names, numbers, marith's operators and recipes,
    `uniform()`, plain system prompts, and functions that `allowed` lists. Its size is limited, see
    `marith.formula.text.trust`. Raises FormulaError for an invalid formula, and, if there are
    `terms`, for an unknown name.
    """
    check_allowed(allowed, trusted)
    if not trusted:
        text, bounded = restricted(text, terms, allowed)
        # Without terms, names are not replaced, as for trusted text.
        terms = terms and bounded
    formula = text if isinstance(text, Formula) else parse_text(text)
    return formula if terms is None else bind(formula, resolve(terms))


def restricted(
    formula: str | Formula, terms: Terms | None, allowed: Collection[str] = ()
) -> tuple[Formula, Mapping[str, Formula]]:
    """Return a formula and terms as objects. Texts among them are checked as untrusted.

    An untrusted text may contain defined names, numbers, operators, recipes, functions that
    `allowed` lists, `uniform()` and plain system prompts. It must not redefine a name of the
    application. Raises FormulaError for any other content.
    """
    checked = checked_terms(terms)
    objects: dict[str, Formula] = {}
    texts: dict[str, str] = {}
    for name, term in checked.items():
        # This raises FormulaError unless the name is a plain word.
        Name(name)
        if isinstance(term, Formula):
            objects[name] = term
        else:
            texts[name] = _text_of(name, term)
    if BARE in texts:
        raise FormulaError(f"the name {BARE!r} belongs to the application and cannot be redefined")
    text = formula if isinstance(formula, str) else ""
    letters = sum(map(len, (text, *texts, *texts.values())))
    if letters > MOST_LETTERS or len(texts) > MOST_TERMS:
        raise FormulaError(
            f"an untrusted formula has at most {MOST_LETTERS} characters and {MOST_TERMS} terms, "
            f"not {letters} and {len(texts)}"
        )
    allowed = frozenset(allowed)
    parsed = {name: read_term(name, checked[name], allowed) for name in texts}
    whole = formula if isinstance(formula, Formula) else parse_text(formula, allowed)
    _check_size([*parsed.values(), *([whole] if text else [])], text)
    # One term stands in for each name of the application, so that a name counts as one part,
    # however large its formula is.
    stand_ins = {
        name: Prompted(f"the application's {name}", template="plain") for name in (BARE, *objects)
    }
    bound = resolve({**stand_ins, **parsed})
    _check_size([bind(whole, bound)] if text else [bound[name] for name in parsed], text)
    return whole, {**objects, **parsed}


def _text_of(name: str, term: Any) -> str:
    """Return the text of a term as data. Raises FormulaError for any other table."""
    if not is_data(term):
        problem = f'untrusted term {name!r} must be a text or {{"formula": "…"}}'
        raise FormulaError(f"{problem}, not {shown(term)}")
    return term if isinstance(term, str) else term["formula"]


def _check_size(formulas: Sequence[Formula], text: str) -> None:
    factors, leaves = 0, set()
    all_nodes = (node for formula in formulas for node in descend(formula))
    for nodes, node in enumerate(all_nodes, 1):
        factors += isinstance(node, Varying)
        leaves |= {node} if isinstance(node, Term) else set()
        counts = {"parts": nodes, "factors that vary": factors, "terms": len(leaves)}
        for (kind, count), limit in zip(counts.items(), LIMITS, strict=True):
            if count > limit:
                problem = f"an untrusted formula has at most {limit} {kind}"
                raise FormulaError(problem, text, 0, len(text))
