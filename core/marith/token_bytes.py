"""The bytes of the tokens of a tokenizer, as llguidance reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llguidance import LLTokenizer


def bytes_of_tokens(raw: Any, count: int, ends: Sequence[int]) -> tuple[list[bytes], set[int]]:
    """Return the bytes of the first `count` tokens, and the special tokens among them.

    The bytes of a special token are its name. `ends` are the tokens that end a text.
    """
    try:
        # Without ends, llguidance takes a special token for the end.
        known = LLTokenizer(raw.to_str(), n_vocab=count, eos_token=[*ends] or None, slices=[])
    except ValueError:
        # llguidance cannot read the definitions of some kinds of tokenizers.
        added = raw.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special} | set(ends)
        texts = [
            (raw.id_to_token(i) or f"[{i}]" if i in special else raw.decode([i])).encode()
            for i in range(count)
        ]
    else:
        special = {i for i in range(count) if known.is_special_token(i)}
        texts = [bytes(known.decode_bytes([i])) for i in range(count)]
        # llguidance marks special tokens by the byte 255, and takes this byte for a mark too.
        for i in [i for i in special if not texts[i]]:
            texts[i] = b"\xff"
            special.discard(i)
    return texts, special
