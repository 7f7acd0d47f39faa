"""What to write instead of text that is no formula: an end for the sentences of its errors."""

from __future__ import annotations

import ast
import re
import unicodedata
from keyword import iskeyword

from marith.errors import similar
from marith.formula.text.calls import CALLS

METHODS = ("top_k", "top_p", "plausible", "temperature")
AROUND = 80  # letters on each side of a fault that are looked at
_SIGNS = {"−": "-", "×": "*", "·": "*", "⋅": "*", "∙": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/",
          "„": '"', "‚": "'", "´": "'"}  # fmt: skip
_CODE_POINT = re.compile(r"U\+([0-9A-F]+)")
_NUMBER = r"\d[\d_]*+(?:\.\d*+)?"
_WORD = r"[^\W\d]\w*+"
_SIDE_BY_SIDE = re.compile(rf"({_NUMBER}|{_WORD}|\))\s*({_WORD}|{_NUMBER})")
_PROSE = re.compile(rf"{_WORD}(?:\s+{_WORD}){{2,}}")
_ASSIGNED = re.compile(rf"\s*{_WORD}\s*=(?!=)\s*")
_COMMA = re.compile(r"(?<![\w.])(\d+),(\d+)(?![\w.]*,)")
_OPERATORS = {
    ast.BitOr: "union",
    ast.BitAnd: "intersection",
    ast.Or: "union",
    ast.And: "intersection",
}


def of_fault(source: str, message: str, start: int) -> tuple[str, int, int]:
    """A sentence about text that Python cannot parse, and where its fault begins and ends.

    `message` is Python's own, about the letter `start` of the text.
    """
    if point := _CODE_POINT.search(message):
        return _of_letter(chr(int(point[1], 16))), start, start + 1
    if message.startswith("unterminated"):
        return "a quotation mark is not closed", start, len(source)
    left = max(0, start - AROUND)
    piece, at = source[left : start + AROUND], start - left
    if (assigned := _ASSIGNED.match(source)) and start <= assigned.end():
        return f"a formula is what is right of =: {source[assigned.end() :][:AROUND]}", 0, start + 1
    if any(words.start() <= at <= words.end() for words in _PROSE.finditer(piece)):
        return 'words are no formula; a system prompt is written prompted("…")', start, start + 1
    for pair in _SIDE_BY_SIDE.finditer(piece):
        if pair.start() - 1 <= at <= pair.end() and not (iskeyword(pair[1]) or iskeyword(pair[2])):
            begin, end = pair.span(2)
            return _missing_operator(pair[1], pair[2]), left + begin, left + end
    if start >= len(source) - 1 and source[-1] in "+-*/(,":
        return "it ends where a term or a number is needed", start, start + 1
    return message, start, start + 1


def _missing_operator(left: str, right: str) -> str:
    """A sentence about two parts side by side, such as `0.5` and `M`."""
    if left[0].isdigit():
        return f"an operator is missing; write {left}*{right}"
    if left in CALLS:
        return f"{left!r} is called with parentheses: {left}(…)"
    return f"an operator or a comma is missing between {left!r} and {right!r}"


def of_node(source: str, node: ast.AST) -> str:
    """A sentence about a part that Python can parse, and that has no meaning in a formula."""
    advice = _instead(source, node)
    return "this has no meaning in a formula" + (f"; {advice}" if advice else "")


def _instead(source: str, node: ast.AST) -> str:
    """What to write instead of a part without a meaning; "" where that is not known."""

    def text(part: ast.expr) -> str:
        return _atom(source, part)

    match node:
        case ast.BinOp(left=left, op=ast.Pow() | ast.BitXor(), right=ast.Constant() as power):
            if isinstance(left, ast.Constant):
                return "there are no powers: write the number itself"
            return f"there are no powers: in a sum write {text(power)}*{text(left)}"
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd()) | ast.BoolOp():
            return f"write {_combined(source, node)}"
        case ast.BinOp():
            return "the operators are +, -, * and /"
        case ast.IfExp(body=body, orelse=otherwise):
            return f"write where(condition, {text(body)}, {text(otherwise)})"
        case ast.Call(func=ast.Constant(value=int() | float()) as factor, args=[of]):
            return f"write {text(factor)}*{text(of)}"
        case ast.Call(func=ast.Attribute(value=of, attr=name), args=given) if name in CALLS:
            return f"write {name}({', '.join(map(text, (of, *given)))})"
        case ast.Attribute(value=of, attr=name) if name in METHODS:
            return f"write {text(of)}.{name}(…)"
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            return f"did you mean .{meant}(…)?" if (meant := similar(name, METHODS)) else ""
    return ""


def _combined(source: str, node: ast.BinOp | ast.BoolOp) -> str:
    """What `|`, `&`, `or` and `and` combine as a call, with parts of the same kind as its own."""
    name = _OPERATORS[type(node.op)]
    parts: list[str] = []
    waiting: list[ast.expr] = [node]
    while waiting:
        match waiting.pop():
            case ast.BoolOp(op=op, values=values) if _OPERATORS[type(op)] == name:
                waiting += reversed(values)
            case ast.BinOp(left=left, op=op, right=right) if _OPERATORS.get(type(op)) == name:
                waiting += (right, left)
            case ast.BinOp(op=ast.BitOr() | ast.BitAnd()) | ast.BoolOp() as other:
                parts.append(_combined(source, other))
            case part:
                parts.append(_written(source, part))
    return f"{name}({_cut(', '.join(parts))})"


def of_list(source: str) -> str:
    """The end of a sentence about a formula with a comma, which makes it a list."""
    comma = _COMMA.search(source)
    return f"; a number is written with a point: {comma[1]}.{comma[2]}" if comma else ""


def _of_letter(letter: str) -> str:
    """A sentence about a letter that no formula has; often it is one that looks like another."""
    is_quote = unicodedata.category(letter) in ("Pi", "Pf")
    sign = _SIGNS.get(letter)
    if is_quote:
        sign = "'" if "SINGLE" in unicodedata.name(letter) else '"'
    elif unicodedata.category(letter) == "Pd":
        sign = "-"
    elif sign is None:
        plain = unicodedata.normalize("NFKC", letter)
        sign = plain if plain.isascii() and not plain.isalnum() else None
    called = f"{letter!r} (U+{ord(letter):04X}, {unicodedata.name(letter, 'unnamed').lower()})"
    written = {" ": "a space", None: ""}.get(sign, sign)
    return f"{called} has no meaning" + (f"; write {written}" if written else "")


def _atom(source: str, part: ast.expr) -> str:
    """A part as it is written, in parentheses where it is a sum or a product."""
    is_atom = isinstance(part, (ast.Name, ast.Constant, ast.Call, ast.Attribute))
    return _written(source, part) if is_atom else f"({_written(source, part)})"


def _written(source: str, part: ast.expr) -> str:
    text = source.encode()[part.col_offset : part.end_col_offset].decode(errors="ignore")
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= AROUND else f"{text[:AROUND]}…"
