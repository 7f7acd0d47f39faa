"""Small models whose vocabularies nearly agree: renamed special tokens, and a missing one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.reference import Reference
from support.small_engine import VOCAB, SmallEngine

from marith import Engine, NGram, Prompted
from marith.formula.text.trust import parse
from marith.scoring.prompting import shared_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

END, OPEN, CLOSE, STOP = 1, 5, 6, 7
# The base model's special tokens, those of a model that renames them, and of one without the last.
OF_BASE = ("<think>", "</think>", "<eot>")
RENAMED = ("<box>", "</box>", "<im_end>")
FEWER = ("<think>", "</think>")


def tokenizer_of(special: Sequence[str], words: Sequence[str] = ("a", "b", "c")) -> Any:
    """Return a tokenizer of `<start>`, `<end>`, the words, and then the special tokens."""
    tokenizer = tiny_tokenizer((*words, *special))
    tokenizer.add_special_tokens({"additional_special_tokens": [*special]})
    return tokenizer


def saved(folder: Path, model: Any, tokenizer: Any) -> str:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@contextmanager
def small_vocabularies() -> Iterator[None]:
    """Let vocabularies of few tokens nearly agree, of which one token is more than 1 %."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_tokens, "MANY", 1.0)
        yield


def build(folder: Path) -> Iterator[SmallEngine]:
    """Yield an engine over eight tokens with two ends, and terms over three other models.

    `q` renames three special tokens, one of them an end. `few` lacks the base model's second end.
    `r` has the base model's vocabulary.
    """
    base = tiny_model(vocab=VOCAB, seed=30, sharpness=3.0)
    renaming = tiny_model(vocab=VOCAB, seed=12, sharpness=3.0)
    fewer = tiny_model(vocab=VOCAB - 1, seed=13, sharpness=3.0)
    alike = tiny_model(vocab=VOCAB, seed=14, sharpness=3.0)
    for model in (base, renaming, alike):
        model.generation_config.eos_token_id = [END, STOP]
    judge = tiny_classifier(vocab=VOCAB, seed=3)
    tokenizers = {special: tokenizer_of(special) for special in (OF_BASE, RENAMED, FEWER)}
    q = saved(folder / "q", renaming, tokenizers[RENAMED])
    few = saved(folder / "few", fewer, tokenizers[FEWER])
    r = saved(folder / "r", alike, tokenizers[OF_BASE])
    of_judge = saved(folder / "judge", judge, tokenizers[OF_BASE])
    words = Vocabulary(tokenizers[OF_BASE], VOCAB, [END, STOP])
    reference = Reference(
        {
            None: (base, words),
            q: (renaming, Vocabulary(tokenizers[RENAMED], VOCAB, [END, STOP])),
            few: (fewer, Vocabulary(tokenizers[FEWER], VOCAB - 1)),
            r: (alike, words),
            of_judge: (judge, Vocabulary(tokenizers[OF_BASE], VOCAB)),
        }
    )
    terms = {
        "x": Prompted("b c"),
        "q": Prompted("a", model=q),
        "p": Prompted("c b", model=q),
        "few": Prompted(model=few),
        "r": Prompted("c", model=r),
        "A": NGram(texts=("a b c a b", "b c a"), order=2),
        "C": parse(f'classifier("{of_judge}", candidates=3)'),
    }
    limits = {"max_lanes": 288, "max_queue": 4096}
    with (
        small_vocabularies(),
        Engine.load(base, tokenizer=tokenizers[OF_BASE], **limits) as engine,
    ):
        yield SmallEngine(engine, reference, terms)
