"""`marith` as a model of lm-evaluation-harness: log-likelihoods and texts of a formula."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import normalize_gen_kwargs
from tqdm import tqdm

from marith import ContextOverflow, Engine, Options, Request, RequestError, Sampling, Stop
from marith.errors import require_known, valid_options
from marith.evals.harness.contexts import Contexts, chat_text, shorter
from marith.request.other_names import advice_for, keywords

NAME = "marith"
# With batch_size="auto" this many requests are in flight.
AUTO = 64
_logger = logging.getLogger(__name__)

_PLACED = [name for name in signature(Engine.load).parameters if name not in ("model", "tokenizer")]
_ARGUMENTS = (
    "model", "pretrained", "formula", "terms", "file", "persona", "batch_size", "max_gen_toks",
    "seed", *_PLACED,
)  # fmt: skip
# Each option is written like this on the harness's command line.
_WRITTEN = {
    **{field.name: f"--gen_kwargs {field.name}=…" for field in fields(Sampling)},
    **keywords(_ARGUMENTS),
    "max_tokens": "max_gen_toks=…",
}
# For each argument of the harness's own models, this is the advice on what to write instead.
_ADVICE = {
    **advice_for(_WRITTEN),
    "max_length": "write context_length=…",
    "peft": "write formula=prompted(adapter=…)",
    "steer_path": "write formula=prompted(vectors={…})",
    "tokenizer": "leave it out, since each model has its own tokenizer",
}
# A task may set these options for a generated text.
_OF_TASKS = (
    "until", "do_sample", "max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens",
    *(field.name for field in fields(Sampling) if field.name != "seed"),
)  # fmt: skip


@register_model(NAME)  # type: ignore[no-untyped-call]  # the harness is not typed
class MarithLM(LM):
    """A formula as a model of the harness.

    `options` are `formula`, `terms`, and the options of an engine, such as `device`, `dtype` and
    `context_length` (see `marith.Options`). `file` is a persona file, and `persona` the name of one
    of its formulas; the sampling options of the file are ignored. `pretrained` is the harness's
    name for `model`. `batch_size` requests are in flight at once, 64 for "auto". `max_gen_toks` is
    the maximum length of a text if a task sets none. Text i is sampled with the seed `seed` + i.

    A term reads raw text without a chat template. With `apply_chat_template` each term reads the
    messages through its own chat template. Raises FormulaError, ModelError or RequestError.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        pretrained: str | None = None,
        file: str | Path | None = None,
        persona: str | None = None,
        batch_size: int | str = "auto",
        max_gen_toks: int = 256,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        require_known("MarithLM", options, _ARGUMENTS, _ADVICE)
        if pretrained is not None and model not in (None, pretrained):
            problem = f"model is {model!r} and pretrained is {pretrained!r}"
            raise RequestError(f"{problem}, which are two names of one argument: leave one out")
        if persona is not None and file is None:
            raise RequestError(f"persona={persona!r} needs a persona file: write file=PATH too")
        if options.get("device") == "cuda:0" and not torch.cuda.is_available():
            # The harness passes this device by default, even on a machine without a GPU.
            del options["device"]
        options |= {"model": model or pretrained, "max_tokens": max_gen_toks, "seed": seed}
        chosen = {name: value for name, value in options.items() if value is not None}
        with valid_options():
            read = Options.from_file(file, persona, **chosen) if file else Options(**chosen)
        self._at_once = _at_once(batch_size)
        self._max_gen_toks, self._seed = max_gen_toks, seed
        self._contexts = Contexts(read)

    @property
    def max_length(self) -> int:
        """The number of tokens of raw text that fit into the context after system prompts."""
        return self._contexts.max_length

    @property
    def tokenizer_name(self) -> str:
        """The name under which the harness caches requests.

        All models share the name, because they store chats in the same form.
        """
        return "marith-messages"

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Return the description that the harness stores with its results.

        Raises RequestError for the name of a template.
        """
        if isinstance(chat_template, str):
            problem = f"each term has its own chat template: leave out the name {chat_template!r}"
            raise RequestError(f"{problem}, and write --apply_chat_template alone")
        return "the chat template of each term" if chat_template else None

    def apply_chat_template(
        self, chat_history: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True
    ) -> str:
        """Return the messages as text.

        If the last message is the assistant's, the answer continues it.
        """
        return chat_text(chat_history)

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return the log-probability of each continuation, and whether greedy decoding gives it."""
        pairs = [self._contexts.pair(*request.args) for request in requests]
        scores = self._in_order(self._score, [pair for pair, _ in pairs])
        answers = (
            (float(sum(found.logprobs[skip:])), all(found.likeliest[skip:]))
            for (_, skip), found in zip(pairs, scores, strict=True)
        )
        return self._finished("loglikelihood", requests, answers, disable_tqdm)

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """Return the log-probability of each whole text, added up over its windows."""
        texts = [self._contexts.windows(*request.args) for request in requests]
        scores = self._in_order(self._score, [window for text in texts for window in text])
        answers = (float(sum(sum(next(scores).logprobs) for _ in text)) for text in texts)
        return self._finished("loglikelihood_rolling", requests, answers, disable_tqdm)

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return the text that is generated after each context, up to a stop string."""
        asked = []
        for i, (context, options) in enumerate(request.args for request in requests):
            sampling, stop = sampling_and_stop(options, self._max_gen_toks, self._seed + i)
            opening = self._contexts.opening(context, stop.max_tokens or self._max_gen_toks)
            asked.append(replace(opening, sampling=sampling, stop=stop))
        answers = (found.text for found in self._in_order(self._contexts.engine.submit, asked))
        return self._finished("generate_until", requests, answers, disable_tqdm)

    def _score(self, request: Request) -> Any:
        return self._contexts.engine.submit_scoring(request.prompt, request.prefix, request.formula)

    def _in_order(
        self, submit: Callable[[Request], Any], requests: Iterable[Request]
    ) -> Iterator[Any]:
        """Yield the results in order. A chat that is too long loses its oldest messages."""
        waiting: deque[Any] = deque()
        for whole in requests:
            request = whole
            while True:
                try:
                    waiting.append(submit(request))
                    break
                except ContextOverflow:
                    if (less := shorter(request)) is None:
                        raise
                    request = less
            self._contexts.cut += request is not whole
            # Waiting for the oldest request keeps at most `batch_size` requests in flight.
            if len(waiting) == self._at_once:
                yield waiting.popleft().result()
        yield from (ticket.result() for ticket in waiting)

    def _finished(
        self, kind: str, requests: Sequence[Instance], answers: Iterable[Any], hidden: bool
    ) -> list[Any]:
        """Return all answers. Cache each as it arrives, and warn if contexts were too long."""
        finished = []
        # With disable=None, tqdm shows its bar on terminals only.
        bar = tqdm(answers, kind, len(requests), disable=hidden or None)
        for request, answer in zip(requests, bar, strict=True):
            self.cache_hook.add_partial(kind, request.args, answer)
            finished.append(answer)
        cut, self._contexts.cut = self._contexts.cut, 0
        if cut:
            problem = "%d of %d contexts had more than %d tokens and were cut at their beginning"
            _logger.warning(problem, cut, len(requests), self.max_length)
        return finished


def _at_once(batch_size: int | str) -> int:
    """Return the number of requests in flight. Raises RequestError for an invalid `batch_size`."""
    # The harness also allows auto:N, where N is how often it chooses a batch size again.
    written = str(batch_size).partition(":")[0]
    if not (written == "auto" or (written.isdecimal() and int(written))):
        raise RequestError(f"batch_size is a whole number from 1 or 'auto', not {batch_size!r}")
    return AUTO if written == "auto" else int(written)


def sampling_and_stop(
    options: Mapping[str, Any], default_length: int, seed: int
) -> tuple[Sampling, Stop]:
    """Return the sampling and stop options of a text from a task's `options`.

    Decoding is greedy by default. Raises RequestError for an unknown option or an invalid value.
    """
    require_known("generate_until", options, _OF_TASKS)
    chosen = {name: value for name, value in options.items() if value is not None}
    default = {"temperature": 1.0 if chosen.get("do_sample") else 0.0}
    read: dict[str, Any] = dict(normalize_gen_kwargs(default | chosen, default_length))
    stop = Stop(read.pop("max_gen_toks"), tuple(filter(None, read.pop("until"))))
    # The temperature already says whether the text is sampled.
    del read["do_sample"]
    # The harness writes top_k=0 for no limit, as transformers does.
    if read.get("top_k") == 0:
        del read["top_k"]
    return Sampling(seed=seed, **read), stop
