"""Find the numbers in a formula's text, and change one of them."""

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
_FINE = 100  # steps of the search, on each side, for the last accepted value


@dataclass(frozen=True, slots=True)
class FormulaNumber:
    """A number in a formula's text, at the characters text[start:end].

    A minus sign before the number does not belong to it: `M - 0.5*toxic` has the number 0.5.
    """

    value: float
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NumberedFormula:
    """A formula's text with its numbers, in order.

    Numbers within a term, such as the candidates of a classifier, are left out because they change
    what a model computes.
    """

    text: str
    numbers: tuple[FormulaNumber, ...]

    @classmethod
    def of(cls, formula: str | Formula) -> NumberedFormula:
        """Return a formula's text with its numbers. Raises FormulaError for an invalid text."""
        text = formula if isinstance(formula, str) else str(formula)
        parse(text)
        source, tree = read_tree(text)
        # `ast` counts columns in bytes of UTF-8.
        data = source.encode()

        def letters(count: int) -> int:
            return len(data[:count].decode())

        constants = sorted(_constants(tree.body), key=lambda node: node.col_offset)
        numbers = (
            FormulaNumber(float(c.value), letters(c.col_offset), letters(c.end_col_offset or 0))  # type: ignore[arg-type]  # a number
            for c in constants
        )
        return cls(source, tuple(numbers))

    def without_texts(self) -> NumberedFormula:
        """Return the formula with "…" instead of quoted texts. The numbers' places are adjusted."""

        def moved(number: FormulaNumber) -> FormulaNumber:
            # A number is never inside a quoted text, so the text before it can be unquoted alone.
            start = len(unquoted(self.text[: number.start]))
            return FormulaNumber(number.value, start, start + number.end - number.start)

        return NumberedFormula(unquoted(self.text), tuple(map(moved, self.numbers)))

    def changed(self, number: int, value: float) -> str:
        """Return the text with another value for the number at this index.

        Raises RequestError for an invalid index, and FormulaError for a value that is not finite.
        """
        at = self.require(number)
        new = finite(value)
        if new is None:
            raise FormulaError(f"a number of a formula must be finite, not {shown(value)}")
        return f"{self.text[: at.start]}{number_text(new)}{self.text[at.end :]}"

    def require(self, number: int) -> FormulaNumber:
        """Return the number at this index. Raises RequestError for an invalid index."""
        if not self.numbers:
            raise RequestError(f"the formula {shown(unquoted(self.text))} has no numbers")
        return self.numbers[whole("number", number, 0, len(self.numbers) - 1)]

    def accepted(self, number: int, terms: Terms | None = None) -> tuple[float, ...]:
        """Return 21 values for a slider of the number at this index. The 11th is the number itself.

        The values go from 0 to twice the number (for 0, from -1 to 1), as far as the formula stays
        valid. They are whole if fractions are refused, as for `top_k`. If one side has too little
        room for ten values, some values are equal. Raises RequestError for an invalid index.
        """
        own, names = self.require(number).value, resolve(terms)

        def is_accepted(value: float) -> bool:
            try:
                check(parse(self.changed(number, value)), names)
            except FormulaError:
                return False
            return True

        # If the number is whole, this is a fraction close to it.
        near = min(0.5, abs(own) / 100)
        is_whole = own.is_integer() and not (is_accepted(own - near) or is_accepted(own + near))

        def values_to(end: float) -> list[float]:
            def at(share: float) -> float:
                value = own + (end - own) * share
                return own if share == 0 else float(round(value) if is_whole else f"{value:.4g}")

            # Values beyond a refused value count as refused, so a binary search finds the last
            # valid one.
            refused = bisect_left(
                range(1, _FINE + 1), True, key=lambda step: not is_accepted(at(step / _FINE))
            )
            return [at(refused / _FINE * step / _STEPS) for step in range(1, _STEPS + 1)]

        reach = abs(own) or 1.0
        return (*sorted(values_to(own - reach)), own, *sorted(values_to(own + reach)))

    def without_zeros(self) -> Formula:
        """Return the formula with 1 in place of each 0, so that no term is multiplied by zero."""
        text = self.text
        # The loop begins at the end, so that the other numbers keep their places.
        for number in reversed(self.numbers):
            if number.value == 0.0:
                text = f"{text[: number.start]}1{text[number.end :]}"
        return parse(text)


def _constants(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the numbers below a node of the syntax tree, in any order. Terms are not searched."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node
        elif not (isinstance(node, ast.Call) and _is_term(node)):
            waiting += ast.iter_child_nodes(node)


def _is_term(call: ast.Call) -> bool:
    """Return True if a call makes a term. Numbers in a package's own function are factors."""
    made = CALLS.get(call.func.id) if isinstance(call.func, ast.Name) else None
    return isinstance(made, type) and issubclass(made, Term)
