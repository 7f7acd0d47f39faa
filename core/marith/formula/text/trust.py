"""What text from others may say: a formula over names that the application defined.

Text is the asker's, objects are the application's: strings are held to the bounds below, and
`Formula`s and terms are taken as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from marith.errors import FormulaError, RequestError, shown
from marith.formula.meaning.binding import BARE, Terms, bind, meaning, resolve
from marith.formula.text.parsing import parse_text
from marith.formula.tree.factors import Varying
from marith.formula.tree.node import descend
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.terms import Prompted, Term

MOST_LETTERS = 4_000  # of a formula and the texts of its terms together
MOST_NODES = 500
MOST_TERMS = 16  # each is a row of every pass
MOST_FACTORS = 32  # those that look at the context, each of which is computed for every token
MOST = (MOST_NODES, MOST_FACTORS, MOST_TERMS)

# What one call of a model may change where its options are not the application's.
OF_A_CALL = frozenset(
    (
        "ban",
        "faithful",
        "max_tokens",
        "min_p",
        "repetition_penalty",
        "seed",
        "steer_tools",
        "stop",
        "temperature",
        "timeout",
        "top_k",
        "top_p",
    )
)


def restricted(
    formula: str | Formula, terms: Terms | None
) -> tuple[Formula, Mapping[str, Formula]]:
    """A formula and terms as objects, where what is text may say no more than others may.

    That is: names that have a meaning, numbers, operators, recipes, `uniform()` and plain system
    prompts. A name that the application defined keeps its meaning. Raises FormulaError.
    """
    if terms is not None and not isinstance(terms, Mapping):
        raise FormulaError(f"terms map names to prompts or terms, not {shown(terms)}")
    own: dict[str, Formula] = {}
    texts: dict[str, str] = {}
    for name, term in (terms or {}).items():
        Name(name)  # refuses what is no plain word
        if isinstance(term, Formula):
            own[name] = term
        elif isinstance(term, str):
            texts[name] = term
        else:
            raise FormulaError(f"term {name!r} of others is a text, not {shown(term)}")
    if BARE in texts:
        raise FormulaError(f"the name {BARE!r} is the application's, and keeps its meaning")
    text = formula if isinstance(formula, str) else ""
    letters = sum(map(len, (text, *texts, *texts.values())))
    if letters > MOST_LETTERS or len(texts) > MOST_TERMS:
        raise FormulaError(
            f"a formula from others has at most {MOST_LETTERS} letters and {MOST_TERMS} terms, "
            f"not {letters} and {len(texts)}"
        )
    known = {BARE, *own, *texts}
    meant = {name: meaning(name, term, known, trusted=False) for name, term in texts.items()}
    written = formula if isinstance(formula, Formula) else parse_text(formula, trusted=False)
    _check_size([*meant.values(), *([written] if text else [])], text)
    bound = resolve({**_counted_once({BARE, *own}), **meant})
    _check_size([bind(written, bound)] if text else [bound[name] for name in meant], text)
    return written, {**own, **meant}


def of_call(
    options: Mapping[str, Any],
    terms: Mapping[str, str],
    formulas: Collection[str],
    frozen: bool,
) -> dict[str, Any]:
    """Options of others for one call, their terms joined to the application's `terms`.

    Its `model` may be one of `formulas`. Where all is `frozen` there is no formula and no term of
    theirs. Raises RequestError for what is not theirs to set, FormulaError for what is not theirs
    to write.
    """
    allowed = OF_A_CALL if frozen else {*OF_A_CALL, "formula", "terms"}
    for name, value in options.items():
        chosen = name == "model" and isinstance(value, str) and value in formulas
        plain = name == "speculation" and value in ("auto", "none", None)
        if not (name in allowed or chosen or plain):
            takes = f"no {name!r} for a call, but {', '.join(sorted(allowed))}"
            kind = "a frozen model" if frozen else "a model that does not trust its callers"
            raise RequestError(f"{kind} takes {takes}")
    if options.keys().isdisjoint(("formula", "terms")):
        return dict(options)
    new = options.get("terms") or {}
    if not isinstance(new, Mapping):
        raise FormulaError(f"terms map names to prompts or terms, not {shown(new)}")
    for name in sorted(terms.keys() & {name for name, term in new.items() if _is_text(term)}):
        raise FormulaError(f"the name {name!r} is the application's, and keeps its meaning")
    restricted(options.get("formula", BARE), {**_counted_once(terms), **new})
    return {**options, "terms": {**terms, **new}}


def _counted_once(names: Iterable[str]) -> dict[str, Formula]:
    """A term for each name of the application's, whatever it stands for."""
    return {name: Prompted(f"the application's {name}", template="plain") for name in names}


def _is_text(term: object) -> bool:
    return not isinstance(term, Formula)


def _check_size(formulas: Sequence[Formula], text: str) -> None:
    factors, leaves = 0, set()
    inside = (node for formula in formulas for node in descend(formula))
    for nodes, node in enumerate(inside, 1):
        factors += isinstance(node, Varying)
        leaves |= {node} if isinstance(node, Term) else set()
        counted = {"parts": nodes, "factors that vary": factors, "terms": len(leaves)}
        for (what, count), most in zip(counted.items(), MOST, strict=True):
            if count > most:
                problem = f"a formula from others has at most {most} {what}"
                raise FormulaError(problem, text, 0, len(text))
