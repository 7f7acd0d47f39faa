"""The bytes of the tokens of a tokenizer, as llguidance reads them."""

from __future__ import annotations

from typing import Any

from llguidance import LLTokenizer

# This byte precedes the name of a special token. No text has it.
MARK = b"\xff"


def bytes_of_tokens(raw: Any, size: int, count: int, ends: list[int]) -> list[bytes]:
    """Return the bytes of `count` tokens. For a special token, these are a mark and its name.

    At the end, one token is added for each byte that is not a token by itself. A grammar that
    allows only such tokens needs a byte that the vocabulary lacks.
    """
    try:
        # Without ends, llguidance takes a special token for the end.
        known = LLTokenizer(raw.to_str(), n_vocab=count, eos_token=ends or None, slices=[])
    except ValueError:
        # llguidance cannot read the definitions of some kinds of tokenizers.
        added = raw.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special} | set(ends)
        texts = [
            (raw.id_to_token(i) or f"[{i}]" if i in special else raw.decode([i])).encode()
            for i in range(size)
        ]
    else:
        special = {i for i in range(size) if known.is_special_token(i)}
        texts = [bytes(known.decode_bytes([i])) for i in range(size)]
    marked = [MARK + text if i in special else text for i, text in enumerate(texts)]
    # The byte 255 is the mark, which no text has.
    missing = {bytes([byte]) for byte in range(255)}.difference(marked)
    return [*marked, *[b""] * (count - size), *sorted(missing)]
