"""Random requests are answered, or refused by a MarithError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from request_fuzzer import Rude, circle, deep, doubled, faults, saved
from support.held_passes import model_of

import marith
from marith import Engine, Request, Stop, Tools
from marith.testing import tiny_model, tiny_tokenizer


def test_random_requests_are_answered_or_refused(tmp_path: Path) -> None:
    wrong, answered = faults(saved(str(tmp_path)), range(450))
    assert not wrong
    assert answered > 40


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}


def calling(**changed: Any) -> list[Any]:
    function = {**CALL["function"], **changed.pop("function", {})}  # type: ignore[dict-item]
    call = {**CALL, "function": function, **changed}
    return [{"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": [call]}]


@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [
        ([("user", "hi")], r"written as \{.*'role': 'user'.*, not \('user', 'hi'\)"),
        ([("ai", "hi")], r"written as \{.*'role': 'assistant'.*, not \('ai', 'hi'\)"),
        (
            [{"role": "user", "content": b"bytes"}],
            "content must be a text or a list of blocks, not b'bytes'",
        ),
        ([{"role": "user"}], "a message must have content"),
        (
            [{"role": "usr", "content": "hi"}],
            "a message has the unknown role 'usr'; did you mean 'user'",
        ),
        ("", "the prompt is empty: write a message"),
        (calling(id=["c"]), r"id must be a text, not \['c'\]"),
        ([{"role": "tool", "content": "t", "tool_call_id": ["c"]}], "tool_call_id must be a text"),
        (
            calling(function={"arguments": {"x": {1, 2}}}),
            "the arguments of 'f' cannot be written as JSON",
        ),
        (calling(function={"arguments": deep(dict)}), "at most 100 levels"),
        (calling(function={"arguments": circle()}), "at most 100 levels"),
        (calling(function={"arguments": doubled()}), "100,000 parts"),
        ([Rude()], "not <Rude instance"),
        (deep(list), "one prompt is needed here, not a list of 1"),
    ],
)
def test_an_invalid_prompt_is_refused_with_what_to_write(
    tiny_dir: str, prompt: Any, sentence: str
) -> None:
    with pytest.raises(marith.RequestError, match=sentence):
        Engine.shared(tiny_dir).submit(Request(prompt))


def test_arguments_that_are_no_object_are_read_as_text(tiny_dir: str) -> None:
    prompt = calling(function={"arguments": "[" * 300})
    assert Engine.shared(tiny_dir).generate(prompt, stop=Stop(1)).usage.prompt_tokens


@pytest.mark.parametrize(
    "tools", [5, {1}, [deep(dict)], [Rude()], [circle()], "f", [{"function": 1}]]
)
def test_invalid_tools_are_refused(tools: Any) -> None:
    with pytest.raises(marith.RequestError, match="tool"):
        Tools(tools)


def test_a_pass_that_runs_out_of_memory_raises_an_error_with_its_cause() -> None:
    with Engine.load(tiny_model(), tokenizer=tiny_tokenizer()) as engine:
        layer = model_of(engine).model.layers[0]
        hook = layer.register_forward_pre_hook(exhaust)
        with pytest.raises(marith.MarithError, match=r"RuntimeError: .*allocate") as caught:
            engine.generate("k l", stop=Stop(1))
        assert isinstance(caught.value.__cause__, RuntimeError)
        hook.remove()
        assert engine.generate("k l", stop=Stop(1)).finish_reason


def exhaust(*_: Any) -> None:
    """What torch raises where there is no memory: by asking for more than there is."""
    torch.empty(1 << 50)
