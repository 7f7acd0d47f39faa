"""A model that returns the replies of a script, exactly, through the real engine.

For the engine it is an ordinary checkpoint: it has weights in a file, a byte-level tokenizer with a
chat template, logits, and keys that are cached, rolled back and read in batches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.modeling_outputs import CausalLMOutputWithPast

from marith.errors import ModelError
from marith.scoring.passes.passes import CACHES
from marith.scoring.weights.locate import locate

# The tokens that end a JSON text soonest, inside a string (True) and outside (False). The first of
# them has the highest logit.
CLOSERS = {True: (b'"',), False: (b"}", b"]", b"0", b'"')}


class ScriptedConfig(PreTrainedConfig):
    """A script, and the size of its vocabulary.

    `script` lists pairs of a pattern and a reply. The prompt, as the template writes it, is
    searched for each pattern in turn; the first pattern that matches gives the reply. `opening` is
    the text that the template writes before an answer.
    """

    model_type = "marith-scripted"
    script: list[Any] | tuple[Any, ...] = ()
    opening: str = ""
    vocab_size: int = 1
    longest_token: int = 1
    num_hidden_layers: int = 1
    max_position_embeddings: int = 4096
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None


class ScriptedModel(PreTrainedModel, GenerationMixin):
    """A causal model whose likeliest token continues the reply of the script.

    Its logits depend only on the tokens. The longest token with which the rest of the reply starts
    has the logit `gap`. Shorter tokens with which the rest starts have lower logits: `gap / 2` for
    the shortest, and 1/4 more for each longer one. If the reply is complete, or does not start with
    the answer so far, the end token has the logit `gap`. A grammar may allow none of these tokens;
    for that case the tokens that close a JSON value have logits up to `gap / 4`. All other tokens
    have logits below 1. The weights are the bytes of the tokens, and the keys are the tokens.
    """

    config_class = ScriptedConfig
    # The model reads masks of booleans, as SDPA attention does.
    _supports_sdpa = True
    gap: Tensor
    data: Tensor
    lengths: Tensor

    def __init__(self, config: ScriptedConfig) -> None:
        super().__init__(config)
        self.gap = nn.Parameter(torch.tensor(20.0), requires_grad=False)
        shape = config.vocab_size, config.longest_token
        self.register_buffer("data", torch.zeros(shape, dtype=torch.uint8))
        self.register_buffer("lengths", torch.zeros(config.vocab_size, dtype=torch.long))
        self.post_init()  # type: ignore[no-untyped-call]  # transformers leaves it untyped

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        return_dict: bool | None = None,
        cache: Any = None,
    ) -> CausalLMOutputWithPast:
        """Return the logits [rows, width, vocab] of tokens [rows, width].

        If `logits_to_keep` is not 0, only the logits of the last `logits_to_keep` positions are
        returned. A tensor holds the indices of the positions.
        `attention_mask` is [rows, seen], or [rows, 1, width, seen] for rows with unequal pasts.
        In transformers before 5.24, `cache` is named `past_key_values`.
        """
        cache = None if use_cache is False else cache or past_key_values
        keys = input_ids[:, None, :, None]
        if cache is not None:
            keys, _ = cache.update(keys, keys, 0)
        tokens_seen = keys[:, 0, :, 0]
        is_tensor = isinstance(logits_to_keep, Tensor)
        kept = logits_to_keep if is_tensor else slice(-logits_to_keep, None)
        visible = _visible(attention_mask, input_ids.shape[1], tokens_seen)[:, kept]
        logits = [
            torch.stack([self._logits_after(tokens[mask].tolist()) for mask in masks])
            for tokens, masks in zip(tokens_seen, visible, strict=True)
        ]
        out: Any = CausalLMOutputWithPast(logits=torch.stack(logits))
        out[CACHES[0] if hasattr(out, CACHES[0]) else CACHES[1]] = cache
        return out  # type: ignore[no-any-return]

    def _init_weights(self, module: nn.Module) -> None:
        """Keep the values of `__init__`, because no weight is random."""

    def _logits_after(self, tokens: list[int]) -> Tensor:
        """Return the logits [vocab] after these tokens."""
        text = b"".join(self._data[token] for token in tokens)
        before, opening, answer = text.rpartition(self.config.opening.encode())
        rest = self._rest((before + opening).decode(errors="replace"), answer) if opening else b""
        logits = self._lowest_logits.clone()
        for rank, closer in enumerate(CLOSERS[answer.count(b'"') % 2 == 1]):
            logits[self._tokens[closer]] = self.gap / 4 - rank / 4
        longest = min(len(rest), self.config.longest_token)
        prefixes = [rest[:size] for size in range(1, longest + 1)]
        candidates = [self._tokens[prefix] for prefix in prefixes if prefix in self._tokens]
        # Longer prefixes have higher logits, so there are no ties.
        logits[candidates] = self.gap / 2 + torch.arange(len(candidates)) / 4
        logits[candidates[-1:] or self._ends] = self.gap
        return logits

    def _rest(self, prompt: str, answer: bytes) -> bytes:
        """Return the rest of the reply to the prompt, or b"" without a reply."""
        for pattern, reply in self.config.script:
            if re.search(pattern, prompt, re.DOTALL):
                whole: bytes = reply.encode()
                return whole[len(answer) :] if whole.startswith(answer) else b""
        return b""

    @cached_property
    def _data(self) -> list[bytes]:
        rows = zip(self.data.tolist(), self.lengths.tolist(), strict=True)
        return [bytes(row[:length]) for row, length in rows]

    @cached_property
    def _tokens(self) -> dict[bytes, int]:
        return {data: token for token, data in enumerate(self._data) if data}

    @cached_property
    def _ends(self) -> list[int]:
        ends = self.config.eos_token_id
        return ends if isinstance(ends, list) else [] if ends is None else [ends]

    @cached_property
    def _lowest_logits(self) -> Tensor:
        """Return each token's logit, in [0, 1), for when the script gives it no other logit.

        No two of these logits are equal in float32.
        """
        golden = torch.arange(len(self._data), dtype=torch.float64) * 0.6180339887
        return (golden % 1).to(self.gap)


def scripted_model(script: Sequence[tuple[str, str]], tokenizer: Any) -> ScriptedModel:
    """Return a model that answers from `script`: pairs of a pattern and a reply.

    A pattern is a regular expression. The whole prompt, as the template writes it, with tools and
    system text, is searched for each pattern in turn; the first pattern that matches gives the
    reply. A reply is the model's raw text, with its calls and reasoning. Raises ModelError for a
    tokenizer that is not byte-level or has no chat template, and for an invalid script.
    """
    for line in script:
        _check(line)
    data = _bytes_of(tokenizer)
    config = ScriptedConfig(
        script=[list(line) for line in script],
        opening=_opening(tokenizer),
        vocab_size=len(data),
        longest_token=max(map(len, data)),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = ScriptedModel(config)
    padded = [list(text.ljust(config.longest_token, b"\0")) for text in data]
    model.data.copy_(torch.tensor(padded, dtype=torch.uint8))
    model.lengths.copy_(torch.tensor([len(text) for text in data]))
    return model


def save_scripted(
    path: str | Path, script: Sequence[tuple[str, str]], tokenizer: Any = None
) -> str:
    """Write a scripted model and its tokenizer as a checkpoint. Return its directory.

    The default tokenizer is pocket's. Raises ModelError as `scripted_model` does.
    """
    if tokenizer is None:
        tokenizer = AutoTokenizer.from_pretrained(locate("pocket"), trust_remote_code=False)
    scripted_model(script, tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def _visible(mask: Tensor | None, width: int, tokens_seen: Tensor) -> Tensor:
    """Return booleans [rows, width, seen]: which tokens each of the last `width` tokens attends to.

    `tokens_seen` is [rows, seen].
    """
    if mask is not None and mask.ndim == 4:
        return mask[:, 0] if mask.dtype == torch.bool else mask[:, 0] == 0
    rows, seen = tokens_seen.shape
    positions = torch.arange(seen, device=tokens_seen.device)
    causal = (positions <= positions[seen - width :, None]).expand(rows, width, seen)
    return causal if mask is None else causal & mask[:, None].bool()


def _check(line: Any) -> None:
    match line:
        case (str(pattern), str()):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ModelError(f"{pattern!r} is not a regular expression: {error}") from None
        case _:
            raise ModelError(f"a line of a script is a pattern and a reply, not {line!r}")


def _opening(tokenizer: Any) -> str:
    """Return the text that the chat template writes before an answer."""
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError("a scripted model needs a tokenizer with a chat template")
    messages = [{"role": "user", "content": "question"}]
    history = tokenizer.apply_chat_template(messages, tokenize=False)
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    opening = str(prompt).removeprefix(str(history))
    if not opening or opening == prompt:
        raise ModelError(f"this chat template does not mark where an answer begins: {prompt!r}")
    return opening


def _bytes_of(tokenizer: Any) -> list[bytes]:
    """Return the bytes of every token, by its id."""
    vocabulary = tokenizer.get_vocab()
    # Byte-level vocabularies write each byte as a letter of GPT-2's alphabet.
    letters = {letter: byte for byte, letter in bytes_to_unicode().items()}
    for letter in letters:
        if letter not in vocabulary:
            raise ModelError(
                f"a scripted model needs a byte-level tokenizer; this one has no token {letter!r}"
            )
    data = [b""] * (max(vocabulary.values()) + 1)
    for text, token in vocabulary.items():
        byte_level = token not in tokenizer.added_tokens_decoder and letters.keys() >= set(text)
        data[token] = bytes(letters[letter] for letter in text) if byte_level else text.encode()
    return data


AutoConfig.register(ScriptedConfig.model_type, ScriptedConfig)
AutoModelForCausalLM.register(ScriptedConfig, ScriptedModel)
