"""What other libraries call an option is answered by marith's name of it, at every door."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from support.error_sentences import refusal

from langchain_marith import ChatMarith, MarithLLM
from llamaindex_marith import Marith
from marith import Engine, Options, Request, Sampling, Stop
from marith.engine.call import CallOptions, request_of
from marith.evals.harness.model import _ARGUMENTS, MarithLM
from marith.request.checks import fields_by_option
from marith.request.other_names import (
    _BY_OPTION,
    _OF_SAMPLING,
    _OF_STOP,
    _SENTENCES,
    AT_CALLS,
    OF_ENGINES,
    RENAMED,
)
from marith.serving.wire.wire_fields import ChatFields
from marith.serving.wire.wire_requests import warnings_of

OTHERS = [*RENAMED, *_SENTENCES]
# And the names of marith's own options, which not every door takes.
NAMES = [*OTHERS, *_BY_OPTION]
ENGINE = {*signature(Engine.load).parameters}
CALL = {*CallOptions.__annotations__, "prompt", "formula", "terms", "sampling", "stop"}
CALL |= {"speculation", "n"}
ADAPTERS = (ChatMarith, MarithLLM, Marith)


def of_options(kind: Any) -> set[str]:
    return {*kind.model_fields, *kind.call_names(), "engine"}


def overridden(kind: Any) -> Callable[..., Any]:
    return lambda **named: kind().overridden(named)


def called(**named: Any) -> Any:
    return request_of("Hi", "M", None, None, Stop(), None, named)  # type: ignore[arg-type]  # any names


# Each door: how an option is given there, and the names that it takes.
DOORS: Mapping[str, tuple[Callable[..., Any], set[str]]] = {
    "Engine.load": (lambda **named: Engine.load("pocket", **named), ENGINE),
    "Engine.generate": (called, CALL),
    "Sampling": (Sampling, {field.name for field in fields(Sampling)}),
    "Stop": (Stop, {field.name for field in fields(Stop)}),
    "Request": (lambda **named: Request("Hi", **named), {f.name for f in fields(Request)}),
    "MarithLM": (lambda **named: MarithLM(**named), {*_ARGUMENTS}),
    "Options": (Options, of_options(Options)),
    "overridden": (overridden(Options), of_options(Options)),
    **{kind.__name__: (kind, of_options(kind)) for kind in ADAPTERS},
    "invoke": (lambda **named: ChatMarith().invoke("Hi", **named), of_options(ChatMarith)),
    "complete": (lambda **named: Marith().complete("Hi", **named), of_options(Marith)),
}  # fmt: skip
# Options that a call of an adapter takes besides those of marith, and arguments of LangChain.
IN_CALLS = {"response_format", "grammar", "tools", "n", "messages", "prompts"}
WRITTEN = re.compile(r"write (\w+)=")
ENGINES_OWN = re.compile(r"Engine\.load\(…, (\w+)=")
CALLS_OWN = re.compile(r"engine\.generate\(…, (\w+)=")
OF_CALLS = {"grammar", "chat_template_kwargs", "terms", "temperature"}  # sentences name them


def test_every_door_takes_the_options_that_the_table_names() -> None:
    assert {*RENAMED.values()} <= ENGINE | CALL | {*Options.model_fields}
    assert {*OF_ENGINES} <= {*_BY_OPTION}
    assert not {*RENAMED} & {*_SENTENCES}
    assert not {*OTHERS} & {*_BY_OPTION}
    assert [*_OF_SAMPLING] == [*fields_by_option(Sampling)]
    assert [*_OF_STOP] == [*fields_by_option(Stop)]


@pytest.mark.parametrize("door", DOORS)
def test_every_name_of_another_library_has_an_answer(door: str) -> None:
    give, names = DOORS[door]
    for other in NAMES:
        if other in names or (door in ("invoke", "complete") and other in IN_CALLS):
            continue
        sentence = refusal(lambda name=other: give(**{name: 1}))  # type: ignore[misc]  # bound now
        assert repr(other) in sentence
        assert "did you mean" not in sentence, sentence
        assert ", but " not in sentence, sentence
        assert {*WRITTEN.findall(sentence)} <= names | OF_CALLS | {"sampling", "stop"}, sentence
        assert {*ENGINES_OWN.findall(sentence)} <= ENGINE, sentence
        assert {*CALLS_OWN.findall(sentence)} <= CALL, sentence


def test_a_persona_file_has_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    for other in OTHERS:
        if other not in Options.model_fields:
            path.write_text(f"[model]\n{other} = 1\n", encoding="utf-8")
            sentence = refusal(lambda: Options.from_file(path))
            assert f"no option {other!r}; " in sentence
            assert "did you mean" not in sentence, sentence


def test_a_server_says_its_own_name_of_an_unknown_field() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "repeat_penalty": 1.1, "n_predict": 5}
    fields = ChatFields.model_validate({**body, "n_ctx": 9, "stop_sequences": ["."]})
    assert warnings_of(fields) == [
        "the field 'repeat_penalty' is unknown, and was ignored; write repetition_penalty",
        "the field 'n_predict' is unknown, and was ignored; write max_tokens",
        "the field 'n_ctx' is unknown, and was ignored",
        "the field 'stop_sequences' is unknown, and was ignored; write stop",
    ]


@pytest.mark.parametrize("kind", [Options, *ADAPTERS])
def test_a_refusal_lists_the_options_of_marith_first(kind: Any) -> None:
    sentence = refusal(lambda: kind(zzzz=1))
    assert f"{kind.__name__} takes no option 'zzzz', but model, formula, terms, temper" in sentence


def test_a_name_of_another_library_may_be_misspelt() -> None:
    assert "'max_new_token'; write max_tokens=…" in refusal(lambda: Options(max_new_token=1))
    assert "'temprature'; did you mean 'temperature'?" in refusal(lambda: Options(temprature=1))


@pytest.mark.parametrize(
    ("door", "name", "advice"),
    [
        ("Engine.load", "max_tokens", "max_tokens is an option of a call, such as engine.generate"),
        ("Engine.load", "top_p", "top_p is an option of a call, such as engine.generate(…, top_p="),
        ("Engine.generate", "model", "model is an option of an engine, such as Engine.load(…, mod"),
        ("Engine.generate", "strings", "write stop=['…']"),
        ("Request", "strings", "write stop=Stop(strings=['…'])"),
        ("Request", "seed", "write sampling=Sampling(seed=…)"),
        ("Sampling", "token_ids", "write Stop(token_ids=[…])"),
        ("Stop", "timeout", "timeout is an option of a call, such as engine.generate(…, timeout="),
        ("Options", "strings", "write stop=…"),
        (
            "Engine.load",
            "gpu_memory_utilization",
            "write cache_bytes=…, a number of bytes, and not",
        ),
        (
            "Engine.load",
            "max_num_seqs",
            "write max_lanes=…, one lane for each term of each request",
        ),
        ("Engine.load", "enable_thinking", "a call takes template_options={…}"),
        ("Engine.generate", "enable_thinking", "write template_options={…}"),
        ("Engine.generate", "chat_template_kwargs", "write template_options={…}"),
        ("Request", "reasoning_effort", "write template_options={…}"),
        ("Options", "enable_thinking", "write chat_template_kwargs={…}"),
        ("Options", "template_options", "write chat_template_kwargs={…}"),
        ("Options", "response_format", "a call takes grammar=Grammar.json_schema(…)"),
        ("ChatMarith", "vectors", "write a term: terms={'happy': Prompted(vectors={"),
        ("Engine.load", "adapter", "write a term: terms={'style': Prompted(adapter="),
        ("ChatMarith", "response_format", "write llm.invoke(…, response_format=…), or for a"),
    ],
)
def test_a_name_of_marith_at_the_wrong_door_is_sent_to_the_right_one(
    door: str, name: str, advice: str
) -> None:
    give, _ = DOORS[door]
    assert f"{name!r}; {advice}" in refusal(lambda: give(**{name: 1}))


def test_the_unit_of_an_option_is_said_where_the_option_belongs_elsewhere() -> None:
    sentence = AT_CALLS["gpu_memory_utilization"]
    assert sentence.endswith("cache_bytes=…), a number of bytes, and not a share of the memory")
    assert AT_CALLS["chat_template"].endswith("; write template_options={…} for its options")
