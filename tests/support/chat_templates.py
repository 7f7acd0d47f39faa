"""A vocabulary of letters, and chat templates that write, refuse or drop a system message."""

from __future__ import annotations

from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary

SPECIAL = ("<s>", "</s>", "<|turn|>")
PLAIN_CHAT = (
    "<s>{% for m in messages %}<|turn|>{{ m.role }}\n{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)
REFUSES_SYSTEM = (
    "<s>{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "<|turn|>{{ m.role }}\n{{ m.content | trim }}</s>{% endfor %}<|turn|>assistant\n"
)
DROPS_SYSTEM = (
    "<s>{% for m in messages %}{% if m.role != 'system' %}"
    "<|turn|>{{ m.role }}\n{{ m.content }}</s>{% endif %}{% endfor %}<|turn|>assistant\n"
)


@cache
def vocabulary(template: str | None = PLAIN_CHAT, adds_start: bool = True) -> Vocabulary:
    """Return a vocabulary of bytes. With `adds_start`, its tokenizer adds the start token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {text: i for i, text in enumerate((*SPECIAL, *letters))}
    raw = Tokenizer(models.BPE(vocab=ids, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    if adds_start:
        raw.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = template
    return Vocabulary(tokenizer, len(ids))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def shown(tokens: list[int], known: Vocabulary) -> str:
    """Return the text of tokens, with special tokens."""
    return str(known._raw.decode(tokens, skip_special_tokens=False))


def read(term: Prompted, messages: list[dict[str, Any]], template: str | None = PLAIN_CHAT) -> str:
    known = vocabulary(template)
    return shown(to_tokens(term, to_prompt(messages), known), known)
