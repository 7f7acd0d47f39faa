"""Options that strangers may set, in a call or in a file that is not trusted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from marith.errors import FormulaError, RequestError, shown, suggestion
from marith.formula.text.calls import BARE
from marith.formula.text.term_data import checked_terms
from marith.formula.text.trust import restricted
from marith.formula.tree.nodes import Formula, Name
from marith.options.option_checks import METADATA

# The options that an untrusted call may set. The metadata of an option says whether an untrusted
# call may set it.
OF_A_CALL = frozenset(name for name, metadata in METADATA.items() if metadata["untrusted"])
# A file may lower trust, never raise it: these values win over the application's.
LOWERED = {"trusted": False, "frozen": True}


def of_call(
    options: Mapping[str, Any],
    terms: Mapping[str, Any],
    formulas: Collection[str],
    frozen: bool,
    allowed: Collection[str],
) -> dict[str, Any]:
    """Return the untrusted options of one call, with the application's `terms` added.

    The option `model` may name one of `formulas`, and text may call the functions in `allowed`. If
    `frozen`, a call must not have a formula or terms. Raises RequestError for an option that a call
    must not have, and FormulaError for text that is not allowed.
    """
    takes = OF_A_CALL if frozen else {*OF_A_CALL, "formula", "terms"}
    for name, value in options.items():
        is_formula = name == "model" and isinstance(value, str) and value in formulas
        is_no_plan = name == "speculation" and value in ("auto", "none", None)
        if not (name in takes or is_formula or is_no_plan):
            kind = "a frozen model" if frozen else "a model that does not trust its callers"
            call = f"a call of {kind}"
            if name == "model" and formulas:
                hint = suggestion(value, formulas, f"; there are {', '.join(formulas)}")
                problem = f"may set 'model' only to a formula of its file, not to {shown(value)}"
                raise RequestError(f"{call} {problem}{hint}")
            problem = f"must not set {name!r}; it may set {', '.join(sorted(takes))}"
            raise RequestError(f"{call} {problem}")
    if options.keys().isdisjoint(("formula", "terms")):
        return dict(options)
    new_terms = checked_terms(options.get("terms"))
    texts = {name for name, term in new_terms.items() if not isinstance(term, Formula)}
    for name in sorted(terms.keys() & texts):
        raise FormulaError(f"the name {name!r} belongs to the application and cannot be redefined")
    # Each term of the application is checked as if it were `M`: it counts as one part, so a large
    # term does not use up the limits.
    objects = dict.fromkeys(terms, Name(BARE))
    restricted(options.get("formula", BARE), {**objects, **new_terms}, allowed)
    return {**options, "terms": {**terms, **new_terms}}
