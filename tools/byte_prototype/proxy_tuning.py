"""Tune one model by two readings of a model with another tokenizer: base + a*(persona - plain).

    python -m tools.byte_prototype.proxy_tuning BASE.gguf SMALL.gguf OUT.json [options]

`persona` and `plain` are the small model with and without a system prompt; `base` reads the chat
alone. The texts are greedy over bytes, or drawn by a seed.
"""

from __future__ import annotations

import argparse
import json
import time
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from marith import Engine
from tools.byte_prototype.covers import ByteText, TokenModel
from tools.byte_prototype.vocabulary import END, ByteVocabulary

PERSONA = "You are a pirate. Answer like a pirate."
QUESTIONS = (
    "What is the moon?",
    "How do I make a cup of tea?",
    "Why is the sky blue?",
    "What should I eat for breakfast?",
    "Can you recommend a hobby for the winter?",
    "How are you today?",
    "What makes a good friend?",
    "Tell me about the city of Rome.",
    "How can I learn to swim?",
    "What did people do before electricity?",
)
# A byte that a model gives no mass counts as this log-probability in a difference.
FLOOR = -40.0
# The weights of base, persona and plain.
FORMULAS = {
    "base": (1.0, 0.0, 0.0),
    "plain": (0.0, 0.0, 1.0),
    "persona": (0.0, 1.0, 0.0),
    "base + (persona - plain)": (1.0, 1.0, -1.0),
    "base + 1.5*(persona - plain)": (1.0, 1.5, -1.5),
    "base + 2*(persona - plain)": (1.0, 2.0, -2.0),
}


@dataclass(slots=True)
class _Answer:
    """One text, with a reading of each model that its formula has."""

    formula: str
    question: str
    prompts: tuple[Any, ...]
    readings: list[ByteText | None]
    random: np.random.Generator | None
    written: bytearray = field(default_factory=bytearray)
    base_bits: float = 0.0  # the bits of the text under the base, if the formula has it
    refused: int = 0  # bytes that some reading could not read
    ended: bool = False

    def step(self) -> None:
        """Choose a byte, or the end, and let every reading read it."""
        weights = FORMULAS[self.formula]
        scores = np.zeros(END + 1)
        for weight, reading in zip(weights, self.readings, strict=True):
            if reading is not None:
                scores += weight * np.maximum(reading.logprobs(), FLOOR)
        noise = 0 if self.random is None else self.random.gumbel(size=len(scores))
        before = [reading and reading.logprobs() for reading in self.readings]
        for reading in before:
            # Every reading has to be able to go on with the byte.
            if reading is not None:
                scores[np.isneginf(reading)] = -np.inf
        while True:
            symbol = int((scores + noise).argmax())
            if symbol == END or np.isneginf(scores[symbol]) or self._read(symbol):
                break
            self.refused += 1
            scores[symbol] = -np.inf
        if before[0] is not None:
            self.base_bits -= float(before[0][symbol] / np.log(2))
        if symbol == END or np.isneginf(scores[symbol]):
            self.ended = True
        else:
            self.written.append(symbol)

    def _read(self, byte: int) -> bool:
        """Let every reading read a byte. Return False, and read nothing, if one of them cannot."""
        after = [copy(reading) for reading in self.readings]
        try:
            for reading in after:
                if reading is not None:
                    reading.advance(byte)
        except ValueError:
            return False
        self.readings = after
        return True


def main() -> None:
    """Write the answers of every formula to all questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("small", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--bytes", type=int, default=120)
    parser.add_argument("--questions", type=int, default=len(QUESTIONS))
    parser.add_argument("--formulas", nargs="*", default=list(FORMULAS))
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    with (
        Engine.load(str(options.base), dtype=options.dtype) as base,
        Engine.load(str(options.small), dtype="float32") as small,
    ):
        print(base, small, flush=True)
        models = TokenModel(base), TokenModel(small)
        vocabularies = [ByteVocabulary(each.engine._registry.vocabulary) for each in models]
        answers = [
            _answer(formula, question, vocabularies, options.seed, number)
            for formula in options.formulas
            for number, question in enumerate(QUESTIONS[: options.questions])
        ]
        began = time.monotonic()
        for place in range(options.bytes):
            live = [answer for answer in answers if not answer.ended]
            for model, parts in ((models[0], (0,)), (models[1], (1, 2))):
                model.feed(
                    [
                        (reading, answer.prompts[part])
                        for answer in live
                        for part in parts
                        if (reading := answer.readings[part]) is not None
                    ]
                )
            for answer in live:
                answer.step()
            if place % 10 == 9:
                print(place + 1, f"{time.monotonic() - began:.0f} s", flush=True)
                _save(options.out, answers)
        _save(options.out, answers)
        rows = {"base": models[0].rows, "small": models[1].rows}
        print("rows", rows, f"{time.monotonic() - began:.1f} s", flush=True)


def _answer(
    formula: str, question: str, vocabularies: list[ByteVocabulary], seed: int | None, number: int
) -> _Answer:
    user = {"role": "user", "content": question}
    prompts = [user], [{"role": "system", "content": PERSONA}, user], [user]
    readings = [
        ByteText(vocabularies[part > 0], bound=0) if weight else None
        for part, weight in enumerate(FORMULAS[formula])
    ]
    random = None if seed is None else np.random.default_rng((seed, number))
    return _Answer(formula, question, prompts, readings, random)


def _save(path: Path, answers: list[_Answer]) -> None:
    records = [
        {
            "formula": answer.formula, "question": answer.question, "ended": answer.ended,
            "text": answer.written.decode(errors="replace"), "bytes": len(answer.written),
            "base_bits": answer.base_bits, "refused": answer.refused,
        }
        for answer in answers
    ]  # fmt: skip
    path.write_text(json.dumps(records, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
