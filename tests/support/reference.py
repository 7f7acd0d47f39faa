"""The specification: a decoder without cache, batch or draft. The engine must give its texts."""

from __future__ import annotations

import copy
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from marith import Ban, Classifier, NGram, Prompted, Request
from marith.decoding.evaluate import candidates_of, evaluate
from marith.decoding.random_numbers import DRAW, uniform
from marith.decoding.row_constraints import penalised
from marith.decoding.sampling import drawn, warp
from marith.errors import RequestError
from marith.formula.meaning.aligning import aligned
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.removal import without_classifiers, without_cuts
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import (
    Calling,
    Judgement,
    Likelihood,
    Observation,
    Position,
    Reasoning,
)
from marith.request.prompt import Prompt, to_prompt
from marith.scoring.prompting.templates import to_plain_text, to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.ngram_counts import NGramCounts


class Reference:
    """The reference decoder.

    `models` maps None to the base model, and the names in `model=` to (model, vocabulary).
    """

    def __init__(self, models: dict[str | None, tuple[Any, Vocabulary]]) -> None:
        self.models = models
        self.vocabulary = models[None][1]

    @torch.no_grad()
    def distribution(
        self, request: Request, tokens: list[int], allowed: Tensor | None = None
    ) -> Tensor:
        """Return the composed log-probabilities [1, vocab] after `tokens`.

        If the formula's cuts leave no token that is `allowed`, it is composed without them.
        """
        formula = self.aligned(bind(parse(request.formula), resolve(request.terms)))
        asked = self._asked(request)
        spoken: dict[Any, Tensor] = {}
        for term in leaves(formula):
            if isinstance(term, Prompted):
                spoken[term] = self._spoken(term, asked, tokens)[-1:]
            elif isinstance(term, Position):
                spoken[term] = torch.tensor([[float(len(tokens))]])
            elif isinstance(term, (Reasoning, Calling)):
                told = self._is_inside(term, asked, tokens)
                spoken[term] = torch.tensor([[float(told)]])
            elif isinstance(term, Likelihood):
                assert isinstance(term.of, Prompted)
                rows = self._spoken(term.of, asked, tokens)[-len(tokens) - 1 : -1]
                lacked = () if self.agrees(term.of.model) else self.lacking(term.of.model)
                told = [
                    0.0 if token in lacked else float(row[token])
                    for row, token in zip(rows, tokens, strict=True)
                ]
                spoken[term] = torch.tensor([[math.fsum(told)]])
            elif isinstance(term, Judgement):
                reading = to_plain_text(asked.messages) if term.read_prompt else ""
                spoken[term] = self._judged(term, tokens, reading)[None, None]
            elif isinstance(term, NGram):
                texts = [self.vocabulary.encode(text) for text in term.texts]
                ended = [text + sorted(self.vocabulary.eos_ids)[:1] for text in texts]
                counts = NGramCounts(term.order, self.vocabulary.size, ended)
                spoken[term] = counts.logprobs(tokens)[None]
            elif isinstance(term, Classifier):
                guide = term.guide or without_classifiers(formula)
                [candidates] = candidates_of(guide, spoken, term.candidates, term.coverage)
                reading = to_plain_text(asked.messages) if term.read_prompt else ""
                spoken[term] = self._ratios(term, candidates, tokens, reading)
            else:
                spoken[term] = torch.full(
                    (1, self.vocabulary.size), -math.log(self.vocabulary.size)
                )
        whole = evaluate(formula, spoken)
        if allowed is not None and not bool((whole > -math.inf)[..., allowed].any()):
            return evaluate(without_cuts(formula), spoken)
        return whole

    def _is_inside(self, part: Reasoning | Calling, asked: Prompt, tokens: list[int]) -> bool:
        if isinstance(part, Calling) and not asked.tools:
            return False
        opened = self.vocabulary.opens_reasoning(to_tokens(Prompted(), asked, self.vocabulary))
        return is_inside(part, self.vocabulary, opened, tokens)

    def _asked(self, request: Request) -> Prompt:
        told = request.tools.definitions if request.tools and request.tools.callable else ()
        return to_prompt(request.prompt, told, request.template_options)

    def penalised(self, request: Request, logprobs: Tensor, tokens: list[int]) -> Tensor:
        """Return log-probabilities [1, vocab] after `tokens`, with the penalties of the request."""
        if not request.sampling.penalises:
            return logprobs
        prompt = to_tokens(Prompted(), self._asked(request), self.vocabulary)
        return penalised(logprobs, tokens, request.sampling, prompt)

    def decode(
        self,
        request: Request,
        context_length: int = 1 << 20,
        allowed: Callable[[list[int]], Tensor] | None = None,
    ) -> tuple[str, list[int], str]:
        """Return text, tokens and finish reason of a request. `allowed` gives possible tokens."""
        tokens: list[int] = []
        forbidden: dict[tuple[int, ...], list[int]] = defaultdict(list)
        seed, rewinds, ends = request.sampling.seed or 0, 0, self.vocabulary.eos_ids
        prompt = len(to_tokens(Prompted(), to_prompt(request.prompt), self.vocabulary))
        most = min(request.stop.max_tokens, context_length - prompt)
        while True:
            may = None if allowed is None else allowed(tokens)
            logprobs = self.distribution(request, tokens, may)
            if may is not None:
                logprobs = logprobs.masked_fill(~may, -math.inf)
            logprobs[:, forbidden[tuple(tokens)]] = -math.inf
            if allowed is not None or forbidden[tuple(tokens)]:
                logprobs = torch.log_softmax(logprobs, dim=-1)
            if request.ban and bool(logprobs.isnan().all()):  # nothing may follow
                text, end, back = "", None, len(tokens) - 1
            else:
                number = torch.tensor(uniform([seed], [len(tokens)], [rewinds])[:, DRAW])
                logprobs = self.penalised(request, logprobs, tokens)
                masses = warp(logprobs, request.sampling).double().exp()
                tokens.append(int(drawn(masses, number)[0]))
                text, end = self._said(request, tokens, most)
                back = self._banned(request, tokens, text, end is not None)
            if back is not None:
                if back < 0:
                    raise RequestError("nothing may be said")
                forbidden[tuple(tokens[:back])].append(tokens[back])
                del tokens[back:]
                rewinds += 1
            elif end is not None:
                return text, tokens[:-1] if tokens[-1] in ends else tokens, end

    def _said(self, request: Request, tokens: list[int], most: int) -> tuple[str, str | None]:
        """Return the text of tokens without what may become a stop string, and why it ends."""
        text, stops = self.vocabulary.decode(tokens), request.stop.strings
        found = [(at + len(s), at) for s in stops if (at := text.find(s)) >= 0]
        if found:
            return text[: min(found)[1]], "stop"
        if tokens[-1] in self.vocabulary.eos_ids:
            return text, "stop"
        if len(tokens) >= most:
            return text, "length"
        begun = [n for s in stops for n in range(len(s)) if text.endswith(s[:n])]
        return text[: len(text) - max(begun, default=0)], None

    def _banned(self, request: Request, tokens: list[int], text: str, ended: bool) -> int | None:
        """Return the position of the token in which a complete banned word begins, or None."""
        at = None if request.ban is None else first_banned(request.ban, text, ended)
        if at is None:
            return None
        lengths = [len(self.vocabulary.decode(tokens[: i + 1])) for i in range(len(tokens))]
        return next(i for i, length in enumerate(lengths) if length > at)

    def _spoken(self, term: Prompted, asked: Prompt, tokens: list[int]) -> Tensor:
        """Return log-probabilities [tokens, vocab] after each token of the prompt and the text."""
        model, own = self.models[term.model]
        text = to_tokens(term, asked, own) + self.as_read(term.model, tokens)
        if term.exit_layer is not None:
            model = truncated(model, term.exit_layer)
        logits = model(torch.tensor([text])).logits[0]
        return self.over_base(torch.log_softmax(logits[:, : own.size].float(), -1), term.model)

    def aligned(self, formula: Formula) -> Formula:
        """Return a bound formula, changed if a term has another vocabulary than the base model."""
        models = {term: term.model for term in leaves(formula) if isinstance(term, Prompted)}
        lacking = {
            term: self.lacking(model) for term, model in models.items() if not self.agrees(model)
        }
        ends = tuple(sorted(self.vocabulary.eos_ids))
        return aligned(formula, lacking, ends) if lacking else formula

    def as_read(self, model: str | None, tokens: list[int]) -> list[int]:
        """Return tokens of the base model as another model reads them."""
        own = self.models[model][1]
        return [token if token < own.width else own.unknown_id for token in tokens]

    def agrees(self, model: str | None) -> bool:
        """Return whether a model has the base model's vocabulary."""
        own = self.models[model][1]
        return (own.size, own.texts) == (self.vocabulary.size, self.vocabulary.texts)

    def lacking(self, model: str | None) -> tuple[int, ...]:
        """Return the base model's tokens that mean something else to a model, or nothing."""
        ends = {end for end in self._ends(model) if end < self.vocabulary.size}
        others = self._renamed(model) | ends | self.vocabulary.eos_ids
        return tuple(sorted(others - {min(self.vocabulary.eos_ids)}))

    def _ends(self, model: str | None) -> list[int]:
        """Return the tokens that end a text of a model."""
        own = self.models[model][1]
        shared_ends = self.vocabulary.eos_ids - self._renamed(model)
        return [end for end in range(own.size) if end in own.eos_ids or end in shared_ends]

    def over_base(self, rows: Tensor, model: str | None) -> Tensor:
        """Return a model's rows token by token: what it lacks is impossible, its ends are one."""
        if self.agrees(model):
            return rows
        lacking, first = self.lacking(model), min(self.vocabulary.eos_ids)
        over_base = torch.full((len(rows), self.vocabulary.size), -math.inf)
        for token in range(self.vocabulary.size):
            if token not in (*lacking, first):
                over_base[:, token] = rows[:, token]
        over_base[:, first] = rows[:, self._ends(model)].exp().sum(dim=-1).log()
        return over_base

    def _renamed(self, model: str | None) -> set[int]:
        base, own = self.vocabulary.texts, self.models[model][1].texts
        return {token for token in base if base[token] != own.get(token)}

    def _judged(self, term: Classifier | Judgement, tokens: list[int], reading: str) -> Tensor:
        """Return the classifier's judgement of a text, on the scale of the term."""
        model, own = self.models[term.model]
        ids = own.encode(reading + self.vocabulary.decode(tokens), start=True)
        logits = model(torch.tensor([ids])).logits[0] if ids else torch.zeros(2)
        scale = term.scale if isinstance(term, Classifier) else "log"
        said = logits.float() if scale == "logit" else torch.log_softmax(logits.float(), -1)
        return (said.exp() if scale == "probability" else said)[int(term.label)]

    def _ratios(
        self, term: Classifier, candidates: list[int], tokens: list[int], reading: str
    ) -> Tensor:
        ratios = torch.zeros(1, self.vocabulary.size)
        before = self._judged(term, tokens, reading)
        for token in candidates:
            ratios[0, token] = self._judged(term, [*tokens, token], reading) - before
        return ratios


def is_inside(
    part: Observation, vocabulary: Vocabulary, opened: bool, tokens: Sequence[int]
) -> bool:
    """Return by the whole spelling of a text whether it is inside its reasoning, or a call.

    If `opened`, the prompt has begun the reasoning.
    """
    text, tool_format = vocabulary.spell(tokens), vocabulary.tool_format
    if tool_format.thinking is not None:
        begin, end = tool_format.thinking
        if opened or text.lstrip().startswith(begin):
            thought = text if opened else text.lstrip().removeprefix(begin)
            _, ended, text = thought.partition(end)
            if not ended:
                return isinstance(part, Reasoning)
        elif begin.startswith(text.lstrip()):
            return False
    return isinstance(part, Calling) and tool_format.calls.opening in text


@cache
def truncated(model: Any, layers: int) -> Any:
    """Return the model with only its first layers, and its own norm and head after them."""
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    cut = type(model)(config).eval()
    known = model.state_dict()
    cut.load_state_dict({name: known[name] for name in cut.state_dict()})
    return cut


def before_stop(text: str, strings: tuple[str, ...]) -> tuple[str, bool]:
    """Return the text before the stop string that is complete first, and whether there is one.

    Of several that are complete at one character, the longest counts, since it begins first.
    """
    for end in range(len(text) + 1):
        starts = [end - len(string) for string in strings if text[:end].endswith(string)]
        if starts:
            return text[: min(starts)], True
    return text, False


def first_banned(ban: Ban, text: str, ended: bool) -> int | None:
    """Return where the banned word begins that is complete first, or None.

    Of several that are complete at one character, the one that begins last counts.
    """
    complete = []
    for word in ban.words:
        first, last = (ban.whole_words and bool(re.match(r"\w", word[i])) for i in (0, -1))
        pattern = (r"(?<!\w)" if first else "") + re.escape(word) + (r"(?!\w)" if last else "")
        spelt = re.compile(pattern, 0 if ban.case_sensitive else re.IGNORECASE)
        for at in range(len(text)):
            known = at + len(word) + last  # so many letters show it, or the text's end
            if spelt.match(text, at) and (known <= len(text) or ended):
                complete.append((known, -at))
    return -min(complete)[1] if complete else None
