"""Random texts that a compiled schema accepts, and checks that they are valid."""

from __future__ import annotations

import datetime
import decimal
import json
import random
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema
import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from pydantic import AnyUrl, TypeAdapter

from marith.request.forms.grammar import LIMITS

END, LONG = 256, 160  # the token that ends a text; bytes after which a walk closes what is open
_CLOSING = frozenset(b'"}]')


class _Bytes:
    """A vocabulary of single bytes, so that a walk can reach every text."""

    eos_token_id, bos_token_id, special_token_ids = END, None, (END,)
    tokens = (*(bytes([i]) for i in range(END)), b"<end>")

    def __call__(self, text: str) -> list[int]:
        return list(text.encode())


@cache
def byte_tokens() -> LLTokenizer:
    """Return the vocabulary of bytes as llguidance reads it."""
    return LLTokenizer(TokenizerWrapper(_Bytes()), n_vocab=END + 1, eos_token=[END])


def matcher_of(source: str) -> LLMatcher:
    """Return a matcher of a grammar over bytes, at the beginning of a text."""
    return LLMatcher(byte_tokens(), source, log_level=0, limits=LIMITS)


def accepts(source: str, text: str) -> bool:
    """Return True if a grammar accepts a whole text."""
    matcher, data = matcher_of(source), list(text.encode())
    return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting()


def walk(source: str, draw: random.Random) -> str | None:
    """Draw a text byte by byte from what a grammar allows, or return None if it does not end.

    Raises AssertionError if nothing may follow, since such a grammar fails while a model writes.
    """
    matcher, text = matcher_of(source), bytearray()
    while len(text) < 8 * LONG:
        allowed = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        assert not matcher.is_error(), f"{matcher.get_error()[:200]} after {bytes(text)!r}"
        bits = np.unpackbits(allowed, bitorder="little")[: END + 1].nonzero()[0].tolist()
        assert bits, f"nothing may follow {bytes(text)!r}"
        byte = _drawn(bits, len(text), draw)
        if byte == END:
            return text.decode()
        assert matcher.consume_token(byte)
        text.append(byte)
    return None


def _drawn(allowed: list[int], length: int, draw: random.Random) -> int:
    """Draw an allowed byte: printable bytes are preferred, and late in a text closing ones."""
    if END in allowed and (length > LONG or draw.random() < 0.5):
        return END
    closing = [byte for byte in allowed if byte in _CLOSING]
    if closing and (length > LONG or draw.random() < 0.25):
        return draw.choice(closing)
    escapes = [byte for byte in allowed if byte == 0x5C]
    if escapes and draw.random() < 0.1:
        return escapes[0]
    printable = [byte for byte in allowed if 32 <= byte < 127]
    return draw.choice(printable if printable and draw.random() < 0.9 else allowed)


def _format_checker() -> jsonschema.FormatChecker:
    """Return the checks of formats that jsonschema has without further packages, and pydantic's."""
    checker = jsonschema.FormatChecker(("date", "email", "idn-email", "ipv4", "ipv6", "uuid"))
    read_as: dict[str, Any] = {
        "time": datetime.time,
        "date-time": datetime.datetime,
        "duration": datetime.timedelta,
        "uri": AnyUrl,
    }
    for name, kind in read_as.items():
        checker.checks(name, ValueError)(_readable(TypeAdapter(kind).validate_python))
    for version in range(1, 9):
        checker.checks(f"uuid{version}", ValueError)(_version_of(version))
    return checker


def _readable(read: Callable[[Any], Any]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or read(value) is not None


def _version_of(version: int) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or uuid.UUID(value).version == version


FORMAT_CHECKER = _format_checker()


def exact(text: str) -> Any:
    """Return the value of a JSON text, with exact numbers."""
    return json.loads(text, parse_float=Decimal)


def problems(schema: Mapping[str, Any], text: str) -> list[str]:
    """Return why a text is invalid by its schema, by jsonschema, with exact numbers."""
    checker = FORMAT_CHECKER
    validator = jsonschema.Draft202012Validator(exact(json.dumps(schema)), format_checker=checker)
    with decimal.localcontext(prec=2000):
        return [error.message for error in validator.iter_errors(exact(text))]
