"""Write the page of the formula language from the registries of the parser."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

import marith
from marith.formula.meaning.binding import BARE
from marith.formula.text import parsing
from marith.formula.text.advice import METHODS
from marith.formula.text.calls import CALLS
from marith.formula.tree.factors import LARGEST_FACTOR, RELATIONS
from marith.formula.tree.node import MAX_DEPTH, MAX_LENGTH, MAX_NODES
from marith.formula.tree.terms import MAX_ORDER, Term
from marith.recipes import RECIPES, faithful_to
from tools.reference.sections import class_section, function_section
from tools.reference.signatures import Links, documented, fenced, signature, table

INTRODUCTION = f"""A formula is text or a Python object: `marith.parse(str(formula)) == formula`.
Text is read as Python's arithmetic and never run. [The algebra](../explanation/algebra.md)
explains each part.

## Names

`{BARE}` is the bare model, which reads the request's messages and no other system prompt. Every
other name is a key of `terms`. Its value is a system prompt, a term, a formula, or a table as in
[a persona file](#load_file), such as `{{"formula": "M - 0.5*toxic"}}`."""
RECIPES_INTRODUCTION = """A recipe is a published method. It builds a formula of the parts above.
[Recipes](recipes.md) has its paper, its equation, its default strength, and how it differs from the
paper."""
FUNCTIONS = (
    "parse", "explain", "described_recipes", "load_file", "define", "own_methods", "terms_of",
    "without_template",
)  # fmt: skip
RECIPES_BY_NAME = "`marith.recipes.RECIPES` is a dictionary of these functions by name."

Calls = dict[str, Callable[..., Any]]

CLASSES = (marith.Explanation, marith.DescribedRecipe, marith.PersonaFile)


def calls() -> dict[str, Calls]:
    """Return marith's functions that a formula may call, by kind."""
    kinds: dict[str, Calls] = {"terms": {}, "formulas": {}, "factors": {}, "recipes": {}}
    for name, call in CALLS.items():
        if call.__module__.startswith("marith."):
            kinds[_kind(name, call)][name] = call
    return kinds


def _kind(name: str, call: Callable[..., Any]) -> str:
    if name in RECIPES:
        return "recipes"
    if isinstance(call, type) and issubclass(call, Term):
        return "terms"
    return "formulas" if inspect.signature(call).return_annotation == "Formula" else "factors"


def operators() -> str:
    """Return a table of the operators that the parser knows, with their operands."""
    a, b = ast.Name("a"), ast.Name("b")
    sides = {
        ast.Add: "two formulas, or two factors",
        ast.Sub: "two formulas, or two factors",
        ast.Mult: "a factor and a formula, or two factors",
        ast.Div: "a formula or a factor, and a factor",
    }
    rows = [
        (f"`{ast.unparse(ast.BinOp(a, operator(), b))}`", sides[operator])
        for operator in parsing._OPERATORS
    ]
    rows.append(("`-a`", "a formula or a factor"))
    compared = ", ".join(f"`a {relation} b`" for relation in RELATIONS)
    rows.append((compared, "two factors; the condition of `where`"))
    return table(("operator", "operands"), rows)


def limits() -> str:
    """Return a table of the limits of a formula."""
    return table(
        ("bound", "value"),
        [
            ("characters of a formula, each term counted as one", f"{MAX_LENGTH:,}"),
            ("parts of a formula", f"{MAX_NODES:,}"),
            ("depth of nesting", str(MAX_DEPTH)),
            ("size of a number", f"{LARGEST_FACTOR:g}"),
            ("order of an n-gram", str(MAX_ORDER)),
        ],
    )


def term_section(name: str, term: type, links: Links) -> list[str]:
    """Return the section of a term: its call in text, and its class in Python."""
    call = signature(name, term).removesuffix(" -> None")
    python = f"In Python: `marith.{term.__name__}`."
    return [f"### {name}", fenced(call), python, documented(term, links, name)]


def recipe_section(name: str, call: Callable[..., Any], links: Links) -> list[str]:
    """Return the section of a recipe without its paper, which the page of recipes has."""
    heading, signed, text, types = function_section(name, call, links, "###")
    about = [paragraph for paragraph in text.split("\n\n") if "arXiv" not in paragraph]
    return [heading, signed, "\n\n".join(about), types]


def language_page(links: Links) -> list[str]:
    """Return the page of the formula language: names, limits, and the functions that read text."""
    kinds = calls()
    # A link at Formula on every line would only distract.
    links = {name: place for name, place in links.items() if name != "Formula"}
    parts = [INTRODUCTION, "## Operators", operators()]
    parts += ["## Terms", "A term is a leaf: it names a distribution over the next token."]
    for name, term in kinds["terms"].items():
        parts += term_section(name, term, links)  # type: ignore[arg-type]
    parts += ["## Calls that give a formula"]
    for name, call in kinds["formulas"].items():
        parts += function_section(name, call, links, "###")
    parts += [
        "## Formula",
        documented(marith.Formula, links, "Formula"),
        "Text may call these methods: `M.top_k(20)`, `(a + b).top_p(0.9)`.",
    ]
    for name in METHODS:
        parts += function_section(name, getattr(marith.Formula, name), links, "###")
    parts += ["## Factors", "A factor multiplies a formula, or is compared in `where`."]
    for name, call in kinds["factors"].items():
        parts += function_section(name, call, links, "###")
    parts += ["## Recipes", RECIPES_INTRODUCTION]
    for name, call in kinds["recipes"].items():
        parts += recipe_section(name, inspect.unwrap(call), links)
    parts += ["### RECIPES", RECIPES_BY_NAME]
    parts += function_section("faithful_to", faithful_to, links, "###")
    parts += ["## Limits", "A formula that exceeds a limit raises FormulaError.", limits()]
    for name in FUNCTIONS:
        parts += function_section(name, inspect.unwrap(getattr(marith, name)), links)
    for kind in CLASSES:
        parts += class_section(kind, links)
    return parts
