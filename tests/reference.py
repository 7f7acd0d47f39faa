"""The specification: a decoder without cache, batch or draft. The engine says what this says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from marith import Classifier, NGram, Prompted, Request
from marith.decoding.evaluation import evaluate, likeliest
from marith.decoding.sampling import draw, generator, warp
from marith.formula.binding import bind, parse, resolve
from marith.formula.checking import leaves, without_classifiers
from marith.scoring.ngram import NGramCounts
from marith.scoring.templates import to_plain_text, to_prompt, to_tokens
from marith.scoring.vocabulary import Vocabulary


class Reference:
    """`models` maps None to the base model, and the names in `model=` to (model, vocabulary)."""

    def __init__(self, models: dict[str | None, tuple[Any, Vocabulary]]) -> None:
        self.models = models
        self.vocabulary = models[None][1]

    @torch.no_grad()
    def distribution(self, request: Request, tokens: list[int]) -> Tensor:
        """The composed log-probabilities [1, vocab] after `tokens`."""
        formula = bind(parse(request.formula), resolve(request.terms))
        told = request.tools.definitions if request.tools else ()
        asked = to_prompt(request.prompt, told, request.template_options)
        spoken: dict[Any, Tensor] = {}
        for term in leaves(formula):
            if isinstance(term, Prompted):
                prompt = to_tokens(term, asked, self.vocabulary)
                model = self.models[term.model][0]
                logits = model(torch.tensor([prompt + tokens])).logits[0, -1:]
                spoken[term] = torch.log_softmax(logits[:, : self.vocabulary.size].float(), -1)
            elif isinstance(term, NGram):
                texts = [self.vocabulary.encode(text) for text in term.texts]
                ended = [text + sorted(self.vocabulary.eos_ids)[:1] for text in texts]
                counts = NGramCounts(term.order, self.vocabulary.size, ended)
                spoken[term] = counts.logprobs(tokens)[None]
            elif isinstance(term, Classifier):
                guide = term.guide or without_classifiers(formula)
                [candidates] = likeliest(guide, spoken, term.candidates, term.coverage)
                reading = to_plain_text(asked.messages) if term.read_prompt else ""
                spoken[term] = self._ratios(term, candidates, tokens, reading)
            else:
                spoken[term] = torch.full(
                    (1, self.vocabulary.size), -math.log(self.vocabulary.size)
                )
        return evaluate(formula, spoken)

    def decode(
        self,
        request: Request,
        context_length: int = 1 << 20,
        allowed: Callable[[list[int]], Tensor] | None = None,
    ) -> tuple[str, list[int], str]:
        """Text, tokens and finish reason of a request; `allowed` are those that may follow."""
        tokens: list[int] = []
        source, text = generator(request.sampling), ""
        prompt = len(to_tokens(Prompted(), to_prompt(request.prompt), self.vocabulary))
        while True:
            logprobs = self.distribution(request, tokens)
            if allowed is not None:
                masked = logprobs.masked_fill(~allowed(tokens), -math.inf)
                logprobs = torch.log_softmax(masked, dim=-1)
            logprobs = warp(logprobs, request.sampling, tokens)
            token = draw(logprobs[0], source)
            if token in self.vocabulary.eos_ids:
                return text, tokens, "stop"
            tokens.append(token)
            text = self.vocabulary.decode(tokens)
            found = [(at + len(s), at) for s in request.stop.strings if (at := text.find(s)) >= 0]
            if found:
                return text[: min(found)[1]], tokens, "stop"
            if len(tokens) >= min(request.stop.max_tokens, context_length - prompt):
                return text, tokens, "length"

    def _ratios(
        self, term: Classifier, candidates: list[int], tokens: list[int], reading: str
    ) -> Tensor:
        model, own = self.models[term.model]

        def judged(continuation: list[int]) -> Tensor:
            ids = own.encode(reading + self.vocabulary.decode(continuation), start=True)
            labels = model.config.num_labels
            if not ids:
                return torch.log(torch.tensor(1.0 / labels))
            logits = model(torch.tensor([ids])).logits[0].float()
            return torch.log_softmax(logits, -1)[int(term.label)]

        ratios = torch.zeros(1, self.vocabulary.size)
        for token in candidates:
            ratios[0, token] = judged([*tokens, token]) - judged(tokens)
        return ratios
