"""Classifiers whose guides cut, compared with an oracle in float64 that shares no code with them.

The oracle has two models of transformers, the algebra of theorem 1 in numpy, and nothing of marith
but the tokens of a prompt. A guide that cuts may allow fewer tokens than `candidates`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from support.small_engine import VOCAB, SmallEngine

from marith import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import to_tokens

Row = NDArray[np.float64]
CASES = 400
CLOSE = 5e-5  # nats; the engine computes in float32, and its factors reach 3
TIED = 1e-5  # a gap between two tokens at a border that float32 may decide otherwise


@dataclass
class Oracle:
    """The log-probabilities of two terms after a text, and what the judge says of a text."""

    rows: dict[str, Row]
    judge: Callable[[list[int]], Row]
    text: list[int]
    is_ambiguous: bool = False

    def cut(self, row: Row, kind: str, bound: float) -> Row:
        """The row with −∞ for each token that the cut removes."""
        order = np.argsort(-row, kind="stable")[: np.isfinite(row).sum()]
        if kind == "top_k":
            kept = order[: int(bound)]
        elif kind == "top_p":
            before = np.cumsum(np.exp(row[order])) - np.exp(row[order])
            self.note(np.abs(before - bound).min())
            kept = order[before < bound]
        else:
            gaps = row - row.max() - np.log(bound)
            self.note(np.abs(gaps[np.isfinite(gaps)]).min())
            kept = np.flatnonzero(gaps >= 0)
        if len(kept) < len(order):
            self.note(row[kept].min() - max(row[token] for token in order if token not in kept))
        out = np.full(VOCAB, -np.inf)
        out[kept] = row[kept]
        return normalised(out)

    def note(self, gap: float) -> None:
        self.is_ambiguous = self.is_ambiguous or bool(gap < TIED)

    def ratios(self, guide: Row, count: int, coverage: float | None, scale: str) -> Row:
        """The difference that each judged token makes, and 0 for all other tokens."""
        order = [token for token in np.argsort(-guide, kind="stable") if guide[token] > -np.inf]
        if len(order) > count:
            self.note(guide[order[count - 1]] - guide[order[count]])
        judged, mass = [], 0.0
        for token in order[:count]:
            if coverage is not None and coverage < 1:
                self.note(abs(mass - coverage))
                if mass >= coverage:
                    break
            judged.append(int(token))
            mass += float(np.exp(guide[token]))
        out = np.zeros(VOCAB)
        before = scaled(self.judge(self.text), scale)
        for token in judged:
            out[token] = scaled(self.judge([*self.text, token]), scale) - before
        return out


def normalised(score: Row) -> Row:
    top = score.max()
    row: Row = score - top - np.log(np.exp(score - top).sum())
    return row


def scaled(logits: Row, scale: str) -> float:
    if scale == "logit":
        return float(logits[1])
    share = np.exp(normalised(logits))
    return float(share[1] if scale == "probability" else np.log(share[1]))


def test_guided_classifiers_agree_with_a_float64_oracle(
    small: SmallEngine, report: Callable[[str], None]
) -> None:
    draw = random.Random(5)
    models, words = small.reference.models, small.reference.vocabulary
    [path] = [name for name in models if name and name.endswith("judge8")]
    model, own = models[path]
    bare = models[None][0]

    @torch.no_grad()
    def judged(text: list[int]) -> Row:
        ids = own.encode(words.decode(text), start=True)
        logits: Row = model(torch.tensor([ids])).logits[0].double().numpy()
        return logits

    @torch.no_grad()
    def spoken(system: str, prompt: str, text: list[int]) -> Row:
        ids = to_tokens(Prompted(system), to_prompt(prompt), words)
        logits = bare(torch.tensor([ids + text])).logits[0, -1, :VOCAB]
        return normalised(logits.double().numpy())

    compared, ambiguous, fewer, worst = 0, 0, 0, 0.0
    for _ in range(CASES):
        prompt = "".join(draw.choices("abcdef", k=draw.randint(1, 4)))
        text = draw.choices(range(2, VOCAB), k=draw.randint(1, 4))
        oracle = Oracle(
            {"M": spoken("", prompt, text), "x": spoken("b c", prompt, text)}, judged, text
        )
        # The guide is a sum of both terms, and then cut, perhaps twice.
        share = round(draw.uniform(-0.5, 0.9), 2)
        guide, written = normalised((oracle.rows["M"] + share * oracle.rows["x"]) / (1 + share)), ""
        for _ in range(draw.randint(1, 2)):
            kind = draw.choice(["top_k", "top_p", "min_p"])
            bound = draw.randint(1, 6) if kind == "top_k" else round(draw.uniform(0.05, 0.99), 3)
            guide, written = oracle.cut(guide, kind, bound), f"{written}.{kind}({bound})"
        count, factor = draw.randint(1, VOCAB), round(draw.uniform(-3, 3), 2)
        scale, coverage = (
            draw.choice(["log", "logit", "probability"]),
            draw.choice([None, 0.7, 1.0]),
        )
        given = f'"{path}", label=1, candidates={count}, scale="{scale}", '
        given += "" if coverage is None else f"coverage={coverage}, "
        formula = f"M + {factor}*classifier({given}guide=(M + {share}*x){written})"
        want = normalised(oracle.rows["M"] + factor * oracle.ratios(guide, count, coverage, scale))
        if oracle.is_ambiguous:
            ambiguous += 1
            continue
        fewer += bool(np.isfinite(guide).sum() < count)
        found = small.engine.next_logprobs(prompt, formula, small.terms, text)
        off = float(np.abs(found.double().numpy() - want).max())
        assert off < CLOSE, f"{formula} after {prompt!r} and {text}: off by {off} nats"
        compared, worst = compared + 1, max(worst, off)
    assert fewer > CASES / 4, "few guides leave fewer tokens than candidates"
    report(f"{compared} formulas equal ({fewer} guides with fewer tokens than candidates), ")
    report(f"{ambiguous} ambiguous; the worst differs by {worst:.1e} nats")
