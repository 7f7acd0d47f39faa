"""`marith`, a model of lm-evaluation-harness: likelihoods and texts of a formula."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from marith.engine.call import NOT_HERE
from marith.engine.engine import Engine
from marith.engine.jobs.queries import Scores
from marith.errors import ContextOverflow, RequestError, names_checked
from marith.evals.harness.bound_formula import BoundFormula
from marith.evals.harness.harness_contexts import Contexts, HarnessPrompt, chat_text
from marith.evals.harness.in_flight import in_flight
from marith.evals.harness.sampling_options import requests_in_flight, sampling_and_stop
from marith.formula.text.term_data import Terms
from marith.request.completion import Completion
from marith.request.request import Request
from marith.showing import bars

T = TypeVar("T")
NAME = "marith"
TEMPLATE = "each term reads the messages through the chat template, with its own system prompt"
_logger = logging.getLogger(__name__)


# What the harness's own models call an option, and what to write here.
_INSTEAD = {
    **NOT_HERE,
    "max_length": "write context_length=…",
    "peft": "write formula=prompted(adapter=…)",
    "tokenizer": "a model brings its own tokenizer",
}


@register_model(NAME)  # type: ignore[no-untyped-call]  # the harness is not typed
@names_checked(instead=_INSTEAD)
class MarithLM(LM):
    """A formula, measured as the harness measures a model.

    `formula` is text over `terms`, or the name of a formula in the TOML file `file`, which then
    defines the terms, and the model where `model` does not. Raw text goes through no chat
    template; with `apply_chat_template` every term reads the messages through its own. `batch_size`
    requests are in flight at once, 64 for "auto"; `max_gen_toks` holds where a task does not say;
    texts that are sampled are so by `seed`; `pretrained` is the harness's own word for `model`.
    Raises FormulaError, ModelError or RequestError.
    """

    def __init__(
        self,
        model: str | None = None,
        formula: str = "M",
        terms: Terms | None = None,
        file: str | Path | None = None,
        *,
        pretrained: str | None = None,
        batch_size: int | str | None = 1,
        max_batch_size: int | None = None,
        max_gen_toks: int = 256,
        seed: int = 0,
        device: str | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        context_length: int | None = None,
    ) -> None:
        super().__init__()
        if pretrained is not None and model not in (None, pretrained):
            raise RequestError(f"pretrained is model, and has another value: {pretrained!r}")
        bound = BoundFormula.of(model or pretrained, formula, terms, file)
        self._concurrency = requests_in_flight(batch_size, max_batch_size)
        self._max_gen_toks = max_gen_toks
        self._seed = seed
        self._engine = Engine.shared(
            bound.model,
            device=_device(device),
            dtype=dtype,
            revision=revision,
            context_length=context_length,
        )
        self._contexts = Contexts(self._engine, bound)

    @property
    def max_length(self) -> int:
        """How many tokens of a text are read at once: what system prompts leave of a context."""
        return self._contexts.max_length

    @property
    def tokenizer_name(self) -> str:
        """The name under which requests are cached: all models write a chat alike."""
        return "marith-messages"

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """What the harness notes with its results. Raises RequestError for a template's name."""
        if isinstance(chat_template, str):
            raise RequestError(f"terms have chat templates of their own, not {chat_template!r}")
        return TEMPLATE if chat_template else None

    def apply_chat_template(
        self, chat_history: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """The messages, written as JSON until a term reads them."""
        return chat_text(chat_history, add_generation_prompt)

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """The log-probability of each continuation, and whether greedy decoding gives it."""
        pairs = [_texts(request, 2) for request in requests]
        prompts = [self._contexts.pair(*pair) for pair in pairs]
        answers = []
        with self._bar("loglikelihood", len(prompts), disable_tqdm) as advance:
            for pair, prompt, scores in zip(pairs, prompts, self._scores(prompts), strict=True):
                counted = scores.logprobs[prompt.skip :]
                answers.append((float(sum(counted)), all(scores.likeliest[prompt.skip :])))
                self.cache_hook.add_partial("loglikelihood", pair, answers[-1])
                advance()
        return answers

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """The log-probability of each whole text, its windows added up."""
        texts = [_texts(request, 1) for request in requests]
        windows = [self._contexts.windows(text) for (text,) in texts]
        scores = self._scores([window for of_text in windows for window in of_text])
        answers = []
        with self._bar("loglikelihood_rolling", len(texts), disable_tqdm) as advance:
            for text, of_text in zip(texts, windows, strict=True):
                answers.append(float(sum(sum(next(scores).logprobs) for _ in of_text)))
                self.cache_hook.add_partial("loglikelihood_rolling", text, answers[-1])
                advance()
        return answers

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """The text generated after each context, up to a string that ends it."""
        pairs = [_texts(request, 2) for request in requests]
        prompts = []
        for i, (context, options) in enumerate(pairs):
            sampling, stop = sampling_and_stop(options, self._max_gen_toks, self._seed + i)
            opening = self._contexts.opening(context, stop.max_tokens or self._max_gen_toks)
            prompts.append((opening, Request("", sampling=sampling, stop=stop)))
        answers = []
        with self._bar("generate_until", len(prompts), disable_tqdm) as advance:
            completions = in_flight(
                lambda prompt: self._answer(*prompt), prompts, self._concurrency
            )
            for texts, completion in zip(pairs, completions, strict=True):
                answers.append(completion.text)
                self.cache_hook.add_partial("generate_until", texts, answers[-1])
                advance()
        return answers

    def _scores(self, prompts: Sequence[HarnessPrompt]) -> Iterator[Scores]:
        """How likely the given tokens are, text by text."""

        def submit(prompt: HarnessPrompt) -> Callable[[], Scores]:
            return self._engine.submit_scoring(prompt.prompt, prompt.tokens, prompt.formula).result

        return in_flight(lambda prompt: self._fitted(prompt, submit), prompts, self._concurrency)

    def _answer(self, opening: HarnessPrompt, request: Request) -> Callable[[], Completion]:
        """A text on its way."""

        def submit(prompt: HarnessPrompt) -> Callable[[], Completion]:
            asked = replace(request, prompt=prompt.prompt, formula=prompt.formula)
            return self._engine.submit(asked).result

        return self._fitted(opening, submit)

    def _fitted(self, prompt: HarnessPrompt, ask: Callable[[HarnessPrompt], T]) -> T:
        """What comes of asking, a chat without its oldest turns where it is too long."""
        try:
            return ask(prompt)
        except ContextOverflow:
            shorter = self._contexts.shorter(prompt)
            if shorter is None:
                raise
            return self._fitted(shorter, ask)

    @contextmanager
    def _bar(self, name: str, total: int, hidden: bool) -> Iterator[Callable[[], None]]:
        """A bar on standard error; at its end a warning counts the contexts that were too long."""
        with bars() as shown:
            bar = shown.add_task(name, total=total, visible=not hidden)
            yield lambda: shown.advance(bar)
        cut, self._contexts.cut = self._contexts.cut, 0
        if cut:
            problem = "%d of %d contexts had more than %d tokens and were read without their start"
            _logger.warning(problem, cut, total, self._contexts.max_length)


def _device(named: str | None) -> str | None:
    """A device, unless it is the harness's default on a machine that has none such."""
    return None if named == "cuda:0" and not torch.cuda.is_available() else named


def _texts(request: Instance, count: int) -> tuple[Any, ...]:
    """What a request holds. Raises RequestError for pictures and sounds."""
    if len(request.args) != count:
        raise RequestError(f"only text can be read, not {request.args[count:]!r}")
    return tuple(request.args)
