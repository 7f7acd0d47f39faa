r"""Translates Python's regular expressions for RE2.

RE2's `\w`, `\d` and `\s` match ASCII alone, and its `(?i)` folds letters in another way. So Python
parses the expression, and each class of characters becomes the ranges that Python matches.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from re import _compiler, _parser  # type: ignore[attr-defined]  # Python's parser
from re import _constants as op  # type: ignore[attr-defined]  # and the names in its trees
from typing import Any, NamedTuple

MOST_REPEATS = 1000  # RE2's limit
_BLOCK, _CHARACTERS, _CASED = 1 << 16, 0x110000, 0x20000  # no letter above has a case
_MARK = "()"
_WORD = ((op.CATEGORY, op.CATEGORY_WORD),)
_NOT = (op.NEGATE, None)
_REFUSED = {
    op.GROUPREF: "refers back to a group",
    op.GROUPREF_EXISTS: "depends on a group",
    op.ATOMIC_GROUP: "has an atomic group",
    op.POSSESSIVE_REPEAT: "has a possessive repeat",
    op.ASSERT: "looks ahead or behind elsewhere than at its ends",
    op.ASSERT_NOT: "looks ahead or behind for the lack of a text, but of one letter at its ends",
    op.AT: r"has \b, \B or $ elsewhere than at its ends, or \b beside what may be no letter",
}

Item = tuple[Any, Any]
Range = tuple[int, int]


class Unsupported(Exception):
    """An expression that RE2 cannot match as Python does; the text says what it contains."""


class Alternative(NamedTuple):
    """An alternative in RE2's syntax, and how many characters before a match it looks at.

    Its groups are empty. If it looks behind, the first marks where the match begins; any other
    marks where the match ends, before what is looked at after it.

    `(?<=a)b(?=c)` becomes `[a-a]()[b-b]()(?:[c-c])`, with `behind` 1.
    """

    text: str
    behind: int


def translated(expression: str) -> list[Alternative]:
    """The alternatives of an expression, in order. Raises Unsupported, and what Python raises.

    `re.sub` with an empty replacement removes the same characters; empty matches and the number of
    matches may differ.
    """
    tree = _parser.parse(expression)
    flat = _flat(list(tree), tree.state.flags)
    ways = [way for items, flags in flat for way in _alternatives(items, flags)]
    if any(way.behind for way in ways) or _least(tree) == 0:
        return ways
    text = "|".join(way.text for way in ways)
    # Matches that follow each other are removed as one match.
    return [Alternative(text if _MARK in text else f"(?:{text})+", 0)]


def _flat(items: list[Item], flags: int) -> Iterator[tuple[list[Item], int]]:
    """The alternatives of an expression, within brackets too, each with its flags."""
    match items:
        case [(op.BRANCH, (_, branches))]:
            for branch in branches:
                yield from _flat(list(branch), flags)
        case [(op.SUBPATTERN, (_, add, remove, inner))]:
            yield from _flat(list(inner), (flags | add) & ~remove)
        case _:
            yield items, flags


def _alternatives(items: list[Item], flags: int) -> list[Alternative]:
    """An alternative of the result for each way in which the items look behind."""
    looks = _look(items[0], items[1:2], -1, flags) if items else None
    items = items if looks is None else items[1:]
    end = len(items) - bool(items and _look(items[-1], items[-2:-1], 1, flags))
    match items[:end]:
        case [(op.MIN_REPEAT, (0, most, inner))] if most and _least(inner):
            items = [(op.MIN_REPEAT, (1, most, inner)), *items[end:]]  # empty matches are ignored
    text = _sequence(items, flags, mark=_MARK)
    _check_preference(items)
    if looks is None:
        return [Alternative(text, 0)]
    return [Alternative(f"{at}{_MARK if width else ''}{text}", width) for at, width in looks]


def _look(
    item: Item, beside: Sequence[Item], direction: int, flags: int
) -> list[tuple[str, int]] | None:
    """The ways in which an item looks before (-1) or after (1) a match, each with its width.

    None for an item that matches characters itself.
    """
    match item:
        case (op.ASSERT, (way, inner)) if way == direction:
            width = int(inner.getwidth()[1])
            if direction > 0:  # the inner expression may look ahead too
                return [(_sequence(inner, flags, mark=""), width)]
            return [(_sequence(inner, flags), width)] if width else None
        case (op.ASSERT_NOT, (way, inner)) if way == direction and len(inner) == 1:
            kind, value = inner[0]
            if kind in (op.LITERAL, op.NOT_LITERAL, op.IN):
                return _none_of(_members(kind, value), direction, flags)
        case (op.AT, op.AT_BOUNDARY) if beside:
            match _is_word(beside[0], direction, flags):
                case True:
                    return _none_of(_WORD, direction, flags)
                case False:
                    return [(_class(_WORD, flags), 1)]
        case (op.AT, op.AT_END) if direction > 0 and not flags & re.MULTILINE:
            return [(r"\n?\z", 1)]
    return None


def _none_of(members: Sequence[Item], direction: int, flags: int) -> list[tuple[str, int]]:
    """The edge of the text, or a character that is not in the set."""
    return [(r"\A" if direction < 0 else r"\z", 0), (_class(_negated(members), flags), 1)]


def _is_word(item: Item, direction: int, flags: int) -> bool | None:
    r"""Whether the character of an item next to a `\b` is in `\w`; None if it may be or not."""
    side = 0 if direction < 0 else -1
    match item:
        case (op.LITERAL | op.IN as kind, value):
            ranges, words = _ranges(_members(kind, value), flags), _ranges(_WORD, flags)
            overlaps = [any(a <= z and y <= b for y, z in words) for a, b in ranges]
            inside = [any(y <= a and b <= z for y, z in words) for a, b in ranges]
            return all(inside) if all(inside) or not any(overlaps) else None
        case (op.MAX_REPEAT | op.MIN_REPEAT, (least, _, inner)) if least and len(inner):
            return _is_word(inner[side], direction, flags)
        case (op.SUBPATTERN, (_, add, remove, inner)) if len(inner):
            return _is_word(inner[side], direction, (flags | add) & ~remove)
        case (op.BRANCH, (_, branches)) if all(map(len, branches)):
            kinds = {_is_word(branch[side], direction, flags) for branch in branches}
            return kinds.pop() if len(kinds) == 1 else None
    return None


def _sequence(sequence: Sequence[Item], flags: int, mark: str | None = None) -> str:
    """The text of a sequence of items.

    `mark` is given for a sequence at the end of an expression, and put before what it looks at.
    """
    items, text = list(sequence), ""
    if items and mark is not None and (looks := _look(items[-1], items[-2:-1], 1, flags)):
        items, text, mark = items[:-1], f"{mark}(?:{'|'.join(at for at, _ in looks)})", None
    marks = [*[None] * (len(items) - 1), mark]
    pairs = zip(items, marks, strict=False)
    return "".join(_item(*item, flags, item_mark) for item, item_mark in pairs) + text


def _item(kind: Any, value: Any, flags: int, mark: str | None) -> str:
    match kind:
        case op.LITERAL | op.NOT_LITERAL | op.IN:
            return _class(_members(kind, value), flags)
        case op.ANY:
            return r"[\x{0}-\x{10FFFF}]" if flags & re.DOTALL else r"[^\n]"
        case op.SUBPATTERN:
            _, add, remove, inner = value
            return f"(?:{_sequence(inner, (flags | add) & ~remove, mark)})"
        case op.BRANCH:
            return f"(?:{'|'.join(_sequence(branch, flags, mark) for branch in value[1])})"
        case op.MAX_REPEAT | op.MIN_REPEAT:
            least, most, inner = value
            return _repeat(least, most, inner, "?" * (kind is op.MIN_REPEAT), flags)
        case op.AT if value is op.AT_BEGINNING_STRING:
            return r"\A"
        case op.AT if value is op.AT_END_STRING:
            return r"\z"
        case op.AT if value is op.AT_BEGINNING:
            return "(?m:^)" if flags & re.MULTILINE else r"\A"
        case op.AT if value is op.AT_END and flags & re.MULTILINE:
            return "(?m:$)"
    raise Unsupported(_REFUSED.get(kind, f"has {str(kind).lower()}"))


def _repeat(least: int, most: Any, inner: Any, lazy: str, flags: int) -> str:
    open_ended = most is op.MAXREPEAT
    if max(least, 0 if open_ended else most) > MOST_REPEATS:
        raise Unsupported(f"repeats something more than {MOST_REPEATS} times")
    text = f"(?:{_sequence(inner, flags)}){{{least},{'' if open_ended else most}}}"
    _check_preference(inner)
    return text + lazy


def _check_preference(items: Sequence[Item]) -> None:
    """Refuse what prefers an empty match to a longer one: RE2 would not try the longer one."""
    if _least(items) == 0 and any(_may_prefer_empty(*item) for item in items):
        raise Unsupported("prefers an empty match to a longer one")


def _may_prefer_empty(kind: Any, value: Any) -> bool:
    match kind:
        case op.MIN_REPEAT:
            return True
        case op.MAX_REPEAT:
            return any(_may_prefer_empty(*item) for item in value[2])
        case op.SUBPATTERN:
            return any(_may_prefer_empty(*item) for item in value[3])
        case op.BRANCH:
            early = any(_least(branch) == 0 for branch in value[1][:-1])
            return early or any(_may_prefer_empty(*item) for branch in value[1] for item in branch)
    return False


def _least(items: Sequence[Item]) -> int:
    """How many characters items match at least."""
    return int(_parser.SubPattern(_parser.State(), list(items)).getwidth()[0])


def _members(kind: Any, value: Any) -> Sequence[Item]:
    """The members of a set of characters."""
    if kind is op.IN:
        return tuple(map(tuple, value))
    return ((op.LITERAL, value),) if kind is op.LITERAL else (_NOT, (op.LITERAL, value))


def _negated(members: Sequence[Item]) -> Sequence[Item]:
    return members[1:] if members[0] == _NOT else (_NOT, *members)


def _class(members: Sequence[Item], flags: int) -> str:
    """A set of characters as RE2 writes it."""
    spans = (f"\\x{{{a:X}}}-\\x{{{b:X}}}" for a, b in _ranges(tuple(members), flags))
    return f"[{''.join(spans)}]"


def _ranges(members: Sequence[Item], flags: int) -> list[Range]:
    """The characters of a set, as ranges in order."""
    included = [member for member in members if member != _NOT]
    ranges: list[Range] = []
    for kind, value in included:
        if kind is op.LITERAL and 0xD800 <= value <= 0xDFFF:
            raise Unsupported("names the half of a character")
        if flags & re.IGNORECASE or kind is op.CATEGORY:
            ranges += _matched(kind, value, flags & (re.IGNORECASE | re.ASCII))
        else:
            ranges.append((value, value) if kind is op.LITERAL else value)
    merged = _merged(ranges)
    return merged if len(included) == len(members) else _complement(merged)


def _merged(ranges: Sequence[Range]) -> list[Range]:
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            first, last = merged[-1][0], max(last, merged.pop()[1])
        merged.append((first, last))
    return merged


def _complement(ranges: Sequence[Range]) -> list[Range]:
    starts, ends = [0, *(b + 1 for _, b in ranges)], [*(a - 1 for a, _ in ranges), _CHARACTERS - 1]
    return [(a, b) for a, b in zip(starts, ends, strict=True) if a <= b]


@lru_cache(maxsize=1024)
def _matched(kind: Any, value: Any, flags: int) -> Sequence[Range]:
    """The characters that a member of a set matches in Python, found by a search in all of them."""
    state = _parser.State()
    character = _parser.SubPattern(state, [(op.IN, [(kind, value)])])
    run = _parser.SubPattern(state, [(op.MAX_REPEAT, (1, op.MAXREPEAT, character))])
    search = _compiler.compile(run, flags | re.UNICODE * (not flags & re.ASCII))
    end = _CASED if kind is op.LITERAL else _CHARACTERS
    matches = (
        (start, match)
        for start in range(0, end, _BLOCK)
        for match in search.finditer(_block(start))
    )
    return _merged([(start + m.start(), start + m.end() - 1) for start, m in matches])


@cache
def _block(start: int) -> str:
    codes = array("I", range(start, start + _BLOCK))
    return codes.tobytes().decode(
        f"utf-32-{'le' if sys.byteorder == 'little' else 'be'}", "surrogatepass"
    )
