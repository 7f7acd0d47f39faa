"""Advice in error messages: what users can write instead of an invalid formula."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Mapping, Sequence
from keyword import iskeyword

from marith.errors import shown, suggestion
from marith.formula.text.calls import BARE, CALLS
from marith.formula.tree.factors import Comparison, Varying, is_number
from marith.formula.tree.node import MAX_DEPTH, MAX_ROW
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.printing import QUOTED

METHODS = ("top_k", "top_p", "min_p", "temperature")
# This number of characters on each side of a fault is examined.
AROUND = 80
_CODE_POINT = re.compile(r"U\+([0-9A-F]+)")
# Possessive quantifiers (`*+`) keep the search in a long text from backtracking.
_NUMBER = r"\d[\d_]*+(?:\.\d*+)?"
_WORD = r"[^\W\d]\w*+"
_SIDE_BY_SIDE = re.compile(rf"({_NUMBER}|{_WORD}|\))\s*({_WORD}|{_NUMBER})")
_PROSE = re.compile(rf"{_WORD}(?:\s+{_WORD}){{2,}}")
_COMMA = re.compile(r"(?<![\w.])(\d+),(\d+)(?![\w.]*,)")
NO_MEANING = (
    "this has no meaning in a formula; its operators are +, -, * and /, and there are calls such "
    "as union(a, b), intersection(a, b), where(entropy(M) > 2, a, b) and M.top_p(0.9)"
)
FUNCTIONS = "; there are functions such as union, intersection, mixture, where, entropy and sigmoid"
_SHARPER = "; to sharpen a term, write M.temperature(0.5)"
# Python's operators that formulas do not have, as they are written, and what to write instead.
OTHER_OPERATORS: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Pow: ("**", _SHARPER),
    ast.BitXor: ("^", _SHARPER),
    ast.BitOr: ("|", "; for a union, write union(a, b)"),
    ast.BitAnd: ("&", "; for an intersection, write intersection(a, b)"),
    ast.Mod: ("%", ""),
    ast.FloorDiv: ("//", ""),
    ast.MatMult: ("@", ""),
    ast.LShift: ("<<", ""),
    ast.RShift: (">>", ""),
}
_RELATIONS: Mapping[type[ast.cmpop], str] = {ast.Eq: "==", ast.NotEq: "!="}
# What marith does already, by the names of the functions with which people ask for it.
_LOGARITHM = "a formula already adds log-probabilities"
_NORMALISED = "marith already turns the sum of a formula into probabilities"
_ALREADY: Mapping[str, str] = {
    **dict.fromkeys(("log", "ln", "logits", "logprobs"), _LOGARITHM),
    **dict.fromkeys(("exp", "softmax", "log_softmax", "normalize"), _NORMALISED),
}
_OF_FACTORS = "; a factor is changed by +, -, *, /, maximum, minimum and sigmoid"
# The functions for factors and for formulas, by the names of Python's functions.
_OTHER_NAMES: Mapping[str, tuple[str, str]] = {
    "max": ("maximum", "union"),
    "min": ("minimum", "intersection"),
}
# Advice repeats a text only if it has at most this number of characters.
_SHORT = 40
# A bracket, or a sign between two members of a sum.
_SUM_SIGNS = re.compile(r"[(\[{)\]}]|(?<=[\w)\]}'])\s*+[+-]")


def of_fault(source: str, message: str, start: int) -> tuple[str, int, int]:
    """Return a message about text that Python cannot parse, and where the fault begins and ends.

    `message` is Python's own message, about the character `start` of the text.
    """
    if point := _CODE_POINT.search(message):
        return _of_letter(chr(int(point[1], 16))), start, start + 1
    if message.startswith("unterminated"):
        return "a quotation mark is not closed", start, len(source)
    left = max(0, start - AROUND)
    piece, at = source[left : start + AROUND], start - left
    if any(words.start() <= at <= words.end() for words in _PROSE.finditer(piece)):
        return 'words are not a formula; a system prompt is written prompted("…")', start, start + 1
    for pair in _SIDE_BY_SIDE.finditer(piece):
        if pair.start() - 1 <= at <= pair.end() and not (iskeyword(pair[1]) or iskeyword(pair[2])):
            begin, end = pair.span(2)
            return _missing_operator(pair[1], pair[2]), left + begin, left + end
    if start >= len(source) - 1 and source[-1] in "+-*/(,":
        return "it ends where a term or a number is needed", start, start + 1
    return message, start, start + 1


def of_value(value: object) -> str:
    """Return the end of a message about a value that is not a formula: what it is, and what to do.

    The message is about the whole text, such as `'hello'` or `7`.
    """
    if isinstance(value, str):
        return f"the text {shown(value)}: write {_prompted(value)}"
    if isinstance(value, Varying):
        return f"the factor {value}, which multiplies a term{_mixed(value)}"
    if isinstance(value, Comparison):
        return f"the condition {value}: write, for example, {_choice(value)}"
    if is_number(value):
        return f"the number {shown(value)}, which multiplies a term: write, for example, 2*M"
    return shown(value)


def of_operand(value: object) -> str:
    """Return a message about a value that can be neither added nor multiplied."""
    if isinstance(value, str):
        prompt = _prompted(value)
        return f"{shown(value)} is a text, and not a term: write {prompt}, or name it in terms"
    if isinstance(value, Comparison):
        return f"{value} is a condition, which only where takes: write {_choice(value)}"
    return f"{shown(value)} cannot be added or multiplied: only terms, numbers and factors can"


def of_sides(left: object, right: object) -> str:
    """Return a message about the sides of a comparison, or "" if they are factors."""
    for side in (left, right):
        if isinstance(side, Formula):
            text = str(side) if side.letters <= _SHORT else "M"
            factor = f"compare a factor, such as max_prob({text}) > 0.5 or entropy({text}) > 2"
            return f"a condition compares factors, and {text} is a distribution; {factor}"
    if is_number(left) and is_number(right):
        problem = "a condition compares factors, and these are numbers"
        return f"{problem}; write, for example, max_prob(M) > 0.5"
    return ""


def of_relation(relation: ast.cmpop) -> str:
    """Return a message about a relation that conditions do not have, such as `==`."""
    written = _RELATIONS.get(type(relation))
    return f"a condition compares by >, >=, < or <={f', not by {written}' if written else ''}"


def of_method(name: str) -> str:
    """Return a message about a call of a method that formulas do not have."""
    problem = f"{name!r} is not a method of a formula"
    if name in CALLS:
        return f"{problem}; it is a function: {name}(…)"
    return problem + suggestion(name, METHODS, f"; there are {', '.join(METHODS)}")


def of_function(name: str, arguments: Sequence[object]) -> str:
    """Return the end of a message about an unknown function that other languages have, or ""."""
    if name in _OTHER_NAMES:
        of_formulas = any(isinstance(each, Formula) for each in arguments)
        return f"; did you mean {_OTHER_NAMES[name][of_formulas]!r}?"
    if name not in _ALREADY:
        return _OF_FACTORS if any(isinstance(each, Varying) for each in arguments) else ""
    match arguments:
        case [Formula() as formula]:
            text = str(formula) if formula.letters <= _SHORT else "the term alone"
            return f"; {_ALREADY[name]}: write {text}"
        case [Varying(), *_]:
            return _OF_FACTORS
    return f"; {_ALREADY[name]}"


def of_expression(node: ast.expr) -> str:
    """Return a message about an expression of Python that formulas do not have."""
    match node:
        case ast.IfExp():
            return f"a formula has no if; write, for example, {_choice()}"
        case ast.Compare():
            problem = "a condition has one comparison"
            return f"{problem}; write a where within a where: where(entropy(M) > 1, {_choice()}, M)"
    return NO_MEANING


def of_depth(source: str) -> str:
    """Return a message about a text that is too deep for Python's parser.

    Either a sum in the text is too long, or the text is nested too deeply.
    """
    members = _longest_sum(source)
    if members > MAX_ROW:
        return f"a sum has {members} members; {MAX_ROW} are allowed"
    return f"it is nested too deeply; {MAX_DEPTH} levels are allowed"


def _longest_sum(source: str) -> int:
    """Return the number of members of the longest sum of a text, without a parser."""
    counts, longest = [1], 1
    for found in _SUM_SIGNS.finditer(QUOTED.sub("''", source)):
        sign = found[0].strip()
        if sign in "([{":
            counts.append(1)
        elif sign in ")]}":
            counts = counts[:-1] or [1]
        else:
            counts[-1] += 1
            longest = max(longest, counts[-1])
    return longest


def _mixed(factor: Varying) -> str:
    """Return advice to multiply a term by a factor. A long factor is left out."""
    if factor.letters > _SHORT:
        return ""
    # The two weights add up to 1 for every factor, also for one that may be negative, or that
    # differs from token to token.
    model = Name(BARE)
    mixed = factor * model.temperature(0.5) + (1 - factor) * model
    return f": write, for example, {mixed}"


def _choice(condition: object = "max_prob(M) > 0.5") -> str:
    """Return a formula that chooses by a condition, and whose only name is `M`."""
    return f"where({condition}, M.temperature(0.5), M)"


def _prompted(text: str) -> str:
    """Return how a system prompt is written. A long text is left out."""
    return f"prompted({shown(text)})" if len(text) <= _SHORT else 'prompted("…")'


def _missing_operator(left: str, right: str) -> str:
    """Return a message about two parts without an operator between them, such as `0.5` and `M`."""
    if left[0].isdigit():
        return f"an operator is missing; write {left}*{right}"
    if left in CALLS:
        return f"{left!r} is called with parentheses: {left}(…)"
    return f"an operator or a comma is missing between {left!r} and {right!r}"


def of_list(source: str) -> str:
    """Return advice for a decimal comma, which makes a list of `0,5*M`, or "" without a comma."""
    comma = _COMMA.search(source)
    return f"; a number is written with a point: {comma[1]}.{comma[2]}" if comma else ""


def _of_letter(letter: str) -> str:
    """Return a message about an invalid character, which often looks like a valid one."""
    name = unicodedata.name(letter, "unnamed").lower()
    called = f"{letter!r} (U+{ord(letter):04X}, {name})"
    return f"{called} has no meaning; signs, quotation marks and spaces are those of ASCII"
