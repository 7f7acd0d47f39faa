"""An engine over eight tokens, whose samples are tested against the exact distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from support.reference import Reference
from torch import Tensor

from marith import Classifier, Completion, Engine, NGram, Prompted, Request
from marith.decoding.evaluate import evaluate
from marith.decoding.sampling import warp
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.removal import without_cuts
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.ngram_counts import NGramCounts
from marith.speculation.auto import Controller, PassTimes
from marith.testing import controller_of, tiny_classifier, tiny_model, tiny_tokenizer

VOCAB, END = 8, 1
AT_ONCE = 1000  # requests
FEW = 5  # a chi-square leaves out what is expected more seldom

Allowed: TypeAlias = "Callable[[Sequence[int]], Tensor]"  # after a text: [vocab], True where it may


class FlatTimes(PassTimes):
    """Times of passes in which more tokens cost nothing, so that the longest drafts are chosen."""

    def cost(self, rows: int) -> float:
        return 1.0


def assume_times(
    engine: Engine, times: type[PassTimes], patch: pytest.MonkeyPatch | None = None
) -> None:
    """Let the engine's controller forget its drafts, and let passes take the times of `times`."""
    patch = patch or pytest.MonkeyPatch()
    patch.setattr(controller_of(engine), "__dict__", vars(Controller(times)))


@dataclass(frozen=True)
class SmallEngine:
    """An engine over eight tokens, the reference decoder, and the terms that both know."""

    engine: Engine
    reference: Reference
    terms: dict[str, Any]


@dataclass(frozen=True)
class Draws:
    """Tokens [draws], their distributions [draws, vocab], places, and the tokens before them.

    Every token of every text is a draw, also the one that ends it.
    """

    tokens: Tensor
    truths: Tensor
    places: list[int]
    before: list[int]

    def of_marginals(self) -> float:
        """Return the p-value of the first three tokens, and of all later tokens together."""
        return p_value(self.tokens, self.truths, [min(place, 3) for place in self.places])

    def of_pairs(self) -> float:
        """Return the p-value of the tokens that follow each token."""
        return p_value(self.tokens, self.truths, self.before)


def build(folder: Path) -> Iterator[SmallEngine]:
    """Yield the engine. Its second checkpoint and its classifier are saved in `folder`."""
    other, judge = str(folder / "small"), str(folder / "judge8")
    tokenizer = tiny_tokenizer(tuple("abcdef"))
    base = tiny_model(vocab=VOCAB, seed=30, sharpness=3.0)
    second = tiny_model(vocab=VOCAB, seed=12, sharpness=3.0)
    classifier = tiny_classifier(vocab=VOCAB, seed=3)
    for model, path in ((second, other), (classifier, judge)):
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
    words = Vocabulary(tokenizer, VOCAB, [END])
    own = Vocabulary(tokenizer, VOCAB)
    reference = Reference({None: (base, words), other: (second, words), judge: (classifier, own)})
    terms = {
        "x": Prompted("b c"),
        "y": Prompted("d"),
        "z": Prompted("a a a"),
        "small": Prompted("e", model=other),
        "A": NGram(texts=("a b c a b d", "b c a", "e f d f"), order=3),
        "own": NGram(order=3, online=True),
        "ends": NGram(texts=("a",), order=1),
        "C": parse(f'classifier("{judge}", candidates=3)'),
    }
    with Engine.load(base, tokenizer=tokenizer, max_lanes=288, max_queue=4096) as engine:
        yield SmallEngine(engine, reference, terms)


def answers(small: SmallEngine, requests: Sequence[Request]) -> list[Completion]:
    """Return the completions of many requests, in order. Up to `AT_ONCE` of them run together."""
    done: list[Completion] = []
    for start in range(0, len(requests), AT_ONCE):
        tickets = [small.engine.submit(request) for request in requests[start : start + AT_ONCE]]
        done += [ticket.result(120) for ticket in tickets]
    return done


def draws(
    small: SmallEngine,
    requests: Sequence[Request],
    completions: Sequence[Completion],
    allowed: Allowed | None = None,
) -> Draws:
    """Return every token with its distribution.

    Requests with one prompt differ only in their seeds.
    """
    texts: dict[str, list[list[int]]] = {}
    for request, done in zip(requests, completions, strict=True):
        ended = done.finish_reason == "stop"
        texts.setdefault(str(request.prompt), []).append([*done.tokens, *[END] * ended])
    alike = {str(request.prompt): request for request in requests}
    truths = [truths_of(small, alike[prompt], texts[prompt], allowed) for prompt in alike]
    drawn = [text for prompt in alike for text in texts[prompt]]
    return Draws(
        torch.tensor([token for text in drawn for token in text]),
        torch.cat(truths),
        [place for text in drawn for place in range(len(text))],
        [before for text in drawn for before in (-1, *text[:-1])],
    )


def truths_of(
    small: SmallEngine, request: Request, texts: Sequence[list[int]], allowed: Allowed | None = None
) -> Tensor:
    """Return the distribution of each token of each text, [tokens, vocab], by uncached passes."""
    formula = bind(parse(request.formula), resolve(request.terms))
    rows = _composed(small, formula, request, texts)
    if allowed is not None:
        may = torch.stack([allowed(text[:at]) for text in texts for at in range(len(text))])
        none = ~(may & (rows > -math.inf)).any(dim=-1)
        if bool(none.any()):
            rows[none] = _composed(small, without_cuts(formula), request, texts)[none]
        rows = torch.log_softmax(rows.masked_fill(~may, -math.inf), dim=-1)
    return warp(rows, request.sampling).exp()


def _composed(
    small: SmallEngine, formula: Formula, request: Request, texts: Sequence[list[int]]
) -> Tensor:
    if any(isinstance(term, Classifier) for term in leaves(formula)):
        distribution = cache(lambda before: small.reference.distribution(request, list(before)))
        rows = [distribution(tuple(t[:at])) for t in texts for at in range(len(t))]
        return torch.cat(rows)
    spoken = {term: _rows(small, term, request, texts) for term in leaves(formula)}
    return evaluate(small.reference.aligned(formula), spoken)


@torch.no_grad()
def _rows(small: SmallEngine, term: Any, request: Request, texts: Sequence[list[int]]) -> Tensor:
    if isinstance(term, NGram):
        ended = [[*small.reference.vocabulary.encode(text), END] for text in term.texts]
        counts = NGramCounts(term.order, VOCAB, ended)
        return torch.stack([counts.logprobs(t[:at]) for t in texts for at in range(len(t))])
    assert isinstance(term, Prompted), f"{term!r} is for the reference alone"
    reference, (model, words) = small.reference, small.reference.models[term.model]
    prompt = to_tokens(term, to_prompt(request.prompt), words)
    width = max(map(len, texts))
    read = [reference.as_read(term.model, text) for text in texts]
    padded = torch.tensor([prompt + text + [0] * (width - len(text)) for text in read])
    rows = torch.log_softmax(model(padded).logits[:, len(prompt) - 1 :].float(), dim=-1)
    along = torch.cat([own[: len(text)] for own, text in zip(rows, texts, strict=True)])
    return reference.over_base(along, term.model)


def p_value(tokens: Tensor, truths: Tensor, contexts: Sequence[Hashable]) -> float:
    """Return the p-value of a chi-square test of tokens with known distributions, by context.

    Given the text before it, a token has mean P and covariance diag(P) − PPᵀ. So the sum of (token
    − P) over all draws of a context is normal, with the sum of these covariances.
    """
    seen = np.eye(VOCAB)[tokens.numpy()]
    wanted = truths.double().numpy()
    if (wanted[seen > 0] == 0).any():
        return 0.0
    places: dict[Hashable, list[int]] = {}
    for at, context in enumerate(contexts):
        places.setdefault(context, []).append(at)
    total, freedom = 0.0, 0
    for at in places.values():
        p = wanted[at]
        large = p.sum(axis=0) >= FEW
        excess = (seen[at] - p).sum(axis=0)[large]
        spread = (np.diag(p.sum(axis=0)) - p.T @ p)[np.ix_(large, large)]
        values, vectors = np.linalg.eigh(spread)
        firm = values > 1e-6 * max(values, default=0.0)
        total += float(((vectors.T @ excess)[firm] ** 2 / values[firm]).sum())
        freedom += int(firm.sum())
    return float(chi2.sf(total, freedom))


def share_of_rejected(completions: Sequence[Completion]) -> float:
    """Return the share of the evaluated drafted tokens that were rejected."""
    stages = [stage for done in completions for stage in done.stats.stages]
    return 1 - sum(stage.accepted for stage in stages) / sum(stage.evaluated for stage in stages)
