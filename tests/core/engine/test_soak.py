"""A sample of what `python tests/soak.py` does for an hour."""

from __future__ import annotations

import soak


def test_texts_of_all_lengths_with_too_little_memory_stay_the_same() -> None:
    out = soak.run(minutes=0.05, callers=8, kinds=12)
    assert not out.wrong
    assert out.done["texts"] > 3
