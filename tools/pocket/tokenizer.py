"""Train the pocket tokenizer: byte-level BPE over the corpus, with role marks and tool calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tools.pocket import corpus

VOCABULARY = 4096
CONTEXT = 1024
CHARACTERS = 6_000_000
ROLES = ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|tools|>"]
SPECIAL = ["<|pad|>", corpus.END, *ROLES]
TOOL_CALL = ["<tool_call>", "</tool_call>"]


def train(seed: int, characters: int = CHARACTERS) -> PreTrainedTokenizerFast:
    """Return a tokenizer of `VOCABULARY` tokens, learned from `characters` of the corpus."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(TOOL_CALL),
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(pieces(seed, characters), trainer)
    # These marks are not special, because an application reads tool calls in the decoded text.
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in TOOL_CALL])
    missing = VOCABULARY - tokenizer.get_vocab_size()
    tokenizer.add_tokens([AddedToken(f"<|spare{n}|>", special=False) for n in range(missing)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=corpus.END,
        pad_token=SPECIAL[0],
        additional_special_tokens=ROLES,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=corpus.chat_template(),
    )


def pieces(seed: int, characters: int) -> Iterator[str]:
    """Yield corpus text between its marks, so that no merge learns to spell a mark."""
    marks = re.compile("|".join(re.escape(mark) for mark in SPECIAL + TOOL_CALL))
    for document in corpus.documents(seed):
        text = corpus.text_of(document)
        yield from filter(None, marks.split(text))
        characters -= len(text)
        if characters <= 0:
            return


def save(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the files that `AutoTokenizer.from_pretrained(folder)` reads."""
    tokenizer.save_pretrained(folder)
    # A file with indentation would be twice as long, in every wheel.
    path = folder / "tokenizer.json"
    path.write_text(Tokenizer.from_file(str(path)).to_str(pretty=False), encoding="utf-8")


def load(folder: Path) -> PreTrainedTokenizerFast:
    """Return the tokenizer saved in `folder`."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer
