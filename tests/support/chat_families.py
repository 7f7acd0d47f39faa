"""Families of chat models: how they write tools, calls and reasoning; a vocabulary for each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from marith.answers.answer_grammar import AnswerGrammars, Spelling
from marith.answers.output import Output, completion
from marith.request.completion import Completion, Stats, Usage
from marith.request.request import Request
from marith.scoring.prompting.tokenizer import Vocabulary

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HERMES_CHAT = (
    "{% if tools %}<|im_start|>system\n"
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}\n\n{% endif %}"
    "# Tools\n<tools>{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n</tools><|im_end|>\n"
    "{% endif %}"
    "{% for m in messages %}{% if m.role == 'tool' %}"
    "<|im_start|>user\n<tool_response>\n{{ m.content }}\n</tool_response><|im_end|>\n"
    "{% elif not (tools and loop.first and m.role == 'system') %}"
    "<|im_start|>{{ m.role }}{% if m.content %}\n{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING_CHAT = HERMES_CHAT.replace(
    "{% if m.content %}\n{{ m.content }}{% endif %}",
    "\n{{ m.content.split('</think>')[-1].lstrip('\\n') }}",
)
OPENED_CHAT = THINKING_CHAT.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
LLAMA_CHAT = (
    "<|begin|>{% if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}"
    "<|header|>system<|/header|>\n\n{{ system }}<|eot|>"
    "{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}"
    "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
    "{% set f = m.tool_calls[0].function %}<|header|>assistant<|/header|>\n\n"
    '{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}<|eot|>'
    "{% elif m.role == 'tool' %}<|header|>ipython<|/header|>\n\n{{ m.content }}<|eot|>"
    "{% else %}<|header|>{{ m.role }}<|/header|>\n\n"
    "{% if tools and loop.first %}Given these functions:\n"
    "{% for t in tools %}{{ t | tojson(indent=4) }}\n\n{% endfor %}{% endif %}"
    "{{ m.content | trim }}<|eot|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|header|>assistant<|/header|>\n\n{% endif %}"
)
_MISTRAL_HEAD = (
    "{% set asked = messages | selectattr('role', 'equalto', 'user') | list | last %}"
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content + '\n\n' %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}<s>"
    "{% for m in messages %}{% if m.role == 'user' %}"
    "{% if tools and m == asked %}"
    "[AVAILABLE_TOOLS] {{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}"
    "[INST] {% if m == asked %}{{ system }}{% endif %}{{ m.content }}[/INST]"
    "{% elif m.tool_calls %}[TOOL_CALLS] [{% for c in m.tool_calls %}"
)
_MISTRAL_TAIL = (
    "{% if loop.last %}]</s>{% else %}, {% endif %}{% endfor %}"
    "{% elif m.role == 'assistant' %} {{ m.content | trim }}</s>"
    "{% elif m.role == 'tool' %}[TOOL_RESULTS] {{ m.content | tojson }}[/TOOL_RESULTS]"
    "{% else %}{{ raise_exception('Only user, assistant and tool roles are supported') }}"
    "{% endif %}{% endfor %}"
)
MISTRAL_CHAT = f"{_MISTRAL_HEAD}{{{{ c.function | tojson }}}}{_MISTRAL_TAIL}"
MISTRAL_IDS = (
    _MISTRAL_HEAD + "{{ (c.function | tojson)[:-1] }}{% if c.id | length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}"
    '{% endif %}, "id": "{{ c.id }}"}' + _MISTRAL_TAIL
)
PHI_CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% if tools and loop.first %}<|tool|>{{ tools | tojson }}<|/tool|>{% endif %}"
    "{% if m.tool_calls %}<|tool_call|>[{% for c in m.tool_calls %}"
    '{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}'
    "{% if not loop.last %}, {% endif %}{% endfor %}]<|/tool_call|>{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
DEAF_CHAT = (
    "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STERN_CHAT = (
    "{% for m in messages %}{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}"
    "{{ raise_exception('Roles must alternate user/assistant') }}{% endif %}"
    "[INST]{{ m.role }}: {{ m.content }}[/INST]{% endfor %}"
)

_IM = ("<|im_start|>", "<|im_end|>")
_LLAMA = ("<|begin|>", "<|header|>", "<|/header|>", "<|eot|>")
_INST = ("[INST]", "[/INST]")
_MISTRAL = ("[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", *_INST)
_RESULTS = ("[TOOL_RESULTS]", "[/TOOL_RESULTS]")
_PHI = ("<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|tool|>", "<|/tool|>")
_CALL = ("<|tool_call|>", "<|/tool_call|>")


@dataclass(frozen=True)
class Family:
    """A chat template, the special tokens of its vocabulary, and marks that are ordinary text."""

    template: str | None
    special: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


FAMILIES = {
    "hermes": Family(HERMES_CHAT, _IM, ("<tool_call>", "</tool_call>")),
    "hermes special": Family(HERMES_CHAT, (*_IM, "<tool_call>", "</tool_call>")),
    "thinking": Family(THINKING_CHAT, _IM, ("<tool_call>", "<think>", "</think>")),
    "thinking special": Family(THINKING_CHAT, (*_IM, "<think>", "</think>")),
    "opened": Family(OPENED_CHAT, _IM, ("<think>", "</think>")),
    "llama": Family(LLAMA_CHAT, _LLAMA),
    "mistral": Family(MISTRAL_CHAT, (*_MISTRAL, *_RESULTS)),
    "mistral plain": Family(MISTRAL_CHAT),
    "mistral ids": Family(MISTRAL_IDS, (*_MISTRAL, *_RESULTS)),
    "phi": Family(PHI_CHAT, (*_PHI, *_CALL)),
    "phi plain": Family(PHI_CHAT, _PHI, _CALL),
    "chatml": Family(CHATML, _IM),
    "deaf": Family(DEAF_CHAT, _IM),
    "stern": Family(STERN_CHAT, _INST),
    "none": Family(None),
}


def byte_letters(data: bytes) -> str:
    """Return the name of a byte-level token, which has a letter for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = dict(zip(others, map(chr, range(256, 512)), strict=False))
    return "".join(letters.get(byte, chr(byte)) for byte in data)


@cache
def speaker(name: str, several: tuple[bytes, ...] = ()) -> Vocabulary:
    """Return a vocabulary of bytes.

    `<s>` is 0, `</s>` is 1 and ends a text, then come the tokens of the family. Tokens of `several`
    bytes can be decoded; no text is encoded with them.
    """
    family = FAMILIES[name]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ("<s>", "</s>", *family.special)
    words = (*special, *letters, *map(byte_letters, several))
    raw = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(words)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(text, special=True) for text in special])
    raw.add_tokens([AddedToken(text, special=False, normalized=False) for text in family.added])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    if family.template is not None:  # a newline that follows a block is dropped, as jinja is set
        tokenizer.chat_template = family.template.replace("%}\n", "%}{{ '\n' }}")
    return Vocabulary(tokenizer, 10**6)


@cache
def answers(name: str) -> AnswerGrammars:
    """Return the grammars of the answers of a family."""
    return AnswerGrammars(speaker(name))


def spelling(name: str) -> Spelling:
    return answers(name)._spelling


def read_back(
    request: Request, vocabulary: Vocabulary, tokens: Iterable[int], opened: bool = False
) -> Completion:
    """Return the completion of an answer with these tokens. The last token ends it."""
    output = Output(request, vocabulary, 10**6, opened)
    chunks = [chunk for token in tokens if (chunk := output.take(token))]
    usage = Usage(0, output.count, 0, output.reasoning_tokens)
    return completion(request, chunks, usage, Stats(0, 0, 0, 0.0), output.stop_string)


def tool(name: str, *required: str, **properties: Any) -> dict[str, Any]:
    """Return a tool with these properties. Each property is a type or a schema."""
    schemas = {k: {"type": v} if isinstance(v, str) else v for k, v in properties.items()}
    parameters = {"type": "object", "properties": schemas, "required": list(required or schemas)}
    function = {"name": name, "description": f"It does {name}.", "parameters": parameters}
    return {"type": "function", "function": function}


def call(name: str, arguments: Any, number: str = "call_1") -> dict[str, Any]:
    """Return a call as OpenAI writes it, with its arguments as JSON text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    function = {"name": name, "arguments": text}
    return {"id": number, "type": "function", "function": function}


def calling(*calls: dict[str, Any], said: str | None = None) -> dict[str, Any]:
    """Return an assistant's message with calls."""
    return {"role": "assistant", "content": said, "tool_calls": list(calls)}


def answering(text: str, number: str = "call_1") -> dict[str, Any]:
    """Return a message with the result of a tool."""
    return {"role": "tool", "tool_call_id": number, "content": text}
