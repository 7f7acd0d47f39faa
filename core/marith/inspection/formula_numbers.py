"""The numbers that stand in a formula's text, and the formula with one of them changed."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from marith.errors import FormulaError, RequestError, shown
from marith.formula.meaning.binding import Terms, resolve
from marith.formula.meaning.checking import check
from marith.formula.text.calls import CALLS
from marith.formula.text.parsing import read_tree
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.formula.tree.printing import number_text, unquoted
from marith.formula.tree.terms import Term
from marith.request.checks import finite, whole

_STEPS = 10  # values of a slider on each side of the number
_FINE = 100  # places on each side where the last accepted value is looked for


@dataclass(frozen=True, slots=True)
class FormulaNumber:
    """A number as it stands in a formula's text, from the letter `start` to before `end`.

    A minus before it is not part of it: of `M - 0.5*toxic` the number is 0.5.
    """

    value: float
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NumberedFormula:
    """A formula's text with its numbers in their order.

    Numbers within a term, such as the candidates of a classifier, are not among them: they change
    what a model computes.
    """

    text: str
    numbers: tuple[FormulaNumber, ...]

    @classmethod
    def of(cls, formula: str | Formula) -> NumberedFormula:
        """Of a text as it is written, or of a formula as it is printed. Raises FormulaError."""
        text = formula if isinstance(formula, str) else str(formula)
        parse(text)
        source, tree = read_tree(text)
        data = source.encode()  # `ast` counts the bytes of UTF-8

        def letters(count: int) -> int:
            return len(data[:count].decode())

        constants = sorted(_constants(tree.body), key=lambda node: node.col_offset)
        numbers = (
            FormulaNumber(float(c.value), letters(c.col_offset), letters(c.end_col_offset or 0))  # type: ignore[arg-type]  # a number
            for c in constants
        )
        return cls(source, tuple(numbers))

    def without_texts(self) -> NumberedFormula:
        """The same with "…" in place of each text that is quoted in it; the numbers move along."""

        def moved(number: FormulaNumber) -> FormulaNumber:
            start = len(unquoted(self.text[: number.start]))  # no number is within a quotation
            return FormulaNumber(number.value, start, start + number.end - number.start)

        return NumberedFormula(unquoted(self.text), tuple(map(moved, self.numbers)))

    def changed(self, number: int, value: float) -> str:
        """The text with another value for the number of this index.

        Raises RequestError where there is no such number, and FormulaError for no finite value.
        """
        at = self.require(number)
        new = finite(value)
        if new is None:
            raise FormulaError(f"a number of a formula is finite, not {shown(value)}")
        return f"{self.text[: at.start]}{number_text(new)}{self.text[at.end :]}"

    def require(self, number: int) -> FormulaNumber:
        """The number of this index. Raises RequestError where there is none."""
        if not self.numbers:
            raise RequestError(f"the formula {shown(unquoted(self.text))} has no numbers")
        return self.numbers[whole("number", number, 0, len(self.numbers) - 1)]

    def accepted(self, number: int, terms: Terms | None = None) -> tuple[float, ...]:
        """Return 21 values that the number of this index may have, for a slider; its own is 11th.

        They are from 0 to twice the number (for 0, from -1 to 1), or as far as the formula keeps a
        meaning on the way, and whole where a fraction is refused, as in `top_k`. Where a side has
        no room for ten values, some of them are equal. Raises RequestError for no such number.
        """
        own, names = self.require(number).value, resolve(terms)

        def is_accepted(value: float) -> bool:
            try:
                check(parse(self.changed(number, value)), names)
            except FormulaError:
                return False
            return True

        near = min(0.5, abs(own) / 100)  # no whole number, if `own` is one
        is_whole = own.is_integer() and not (is_accepted(own - near) or is_accepted(own + near))

        def values_to(end: float) -> list[float]:
            def at(share: float) -> float:
                value = own + (end - own) * share
                return own if share == 0 else float(round(value) if is_whole else f"{value:.4g}")

            refused = bisect_left(
                range(1, _FINE + 1), True, key=lambda step: not is_accepted(at(step / _FINE))
            )
            return [at(refused / _FINE * step / _STEPS) for step in range(1, _STEPS + 1)]

        reach = abs(own) or 1.0
        return (*sorted(values_to(own - reach)), own, *sorted(values_to(own + reach)))

    def without_zeros(self) -> Formula:
        """The formula with 1 for each number that is 0, so that no term is multiplied by zero."""
        text = self.text
        for number in reversed(self.numbers):  # from the end, so that the others stay in place
            if number.value == 0.0:
                text = f"{text[: number.start]}1{text[number.end :]}"
        return parse(text)


def _constants(node: ast.AST) -> Iterator[ast.Constant]:
    """The numbers below a node of the syntax tree, in no order; none of those within terms."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node
        elif not (isinstance(node, ast.Call) and _is_term(node)):
            waiting += ast.iter_child_nodes(node)


def _is_term(call: ast.Call) -> bool:
    """Whether a call makes a term. A package's own function is none: its numbers are factors."""
    made = CALLS.get(call.func.id) if isinstance(call.func, ast.Name) else None
    return isinstance(made, type) and issubclass(made, Term)
