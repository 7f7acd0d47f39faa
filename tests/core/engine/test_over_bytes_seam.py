"""Over bytes, every option of a request works as over tokens, or is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from support.byte_models import END_OF_BYTES, byte_model, saved
from support.chat_families import speaker, tool
from support.checked_engine import wait_until_idle
from support.held_passes import becomes_true, scorer_of
from support.langchain_models import NOON, SCRIPT, THINKING
from support.pauses import Pause, pausing
from support.pocket_vectors import write_vector
from torch import Tensor

import marith
from marith import (
    Ban,
    Completion,
    Engine,
    Grammar,
    ModelError,
    NGram,
    Prompted,
    Request,
    RequestError,
    Sampling,
    Stop,
    Tools,
)
from marith.request.prompt import to_prompt
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import CoveredText
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens
from marith.testing import save_scripted, tiny_classifier, tiny_tokenizer

PROMPT, COLD, LONG = "Tell me about rivers.", Sampling(0.0), Stop(64)
CLOCK = tool("clock", place="string")
REPLY = "Ein Fluß, 東京 🎉!\n\nGut."


@pytest.fixture(scope="module")
def pocket() -> Iterator[Engine]:
    with Engine.load("pocket", over="bytes") as engine:
        yield engine


@pytest.fixture(scope="module")
def tokens() -> Iterator[Engine]:
    with Engine.load("pocket") as engine:
        yield engine


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Prompted:
    """Return a term of a model with another vocabulary."""
    folder = tmp_path_factory.mktemp("other")
    return Prompted(model=saved(byte_model("pieces after a space", seed=5), folder))


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    lines = [("Fluß", REPLY), ("Only a call", NOON), *SCRIPT]
    folder = save_scripted(tmp_path_factory.mktemp("scripted"), lines)
    with Engine.load(folder, over="bytes") as engine:
        yield engine


def said(engine: Engine, prompt: str, stop: Stop = LONG, **options: Any) -> Completion:
    return engine.generate(prompt, sampling=COLD, stop=stop, **options)


# What a text may be


def test_texts_are_those_of_a_grammar(pocket: Engine, other: Prompted) -> None:
    pattern = r"(ja|nein) 東{1,2}é [0-9]{3}"
    for seed in range(3):
        out = pocket.generate(
            PROMPT, "M + 0.5*b", {"b": other}, Sampling(seed=seed), Stop(40),
            grammar=Grammar.regex(pattern),
        )  # fmt: skip
        assert re.fullmatch(pattern, out.text)
        assert out.finish_reason == "stop"


def test_texts_are_json_of_a_schema(pocket: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Elbe", "Øre"]}, "long": {"type": "boolean"}},
        "required": ["name", "long"],
    }
    done = pocket.generate(PROMPT, grammar=Grammar.json_schema(schema), sampling=Sampling(seed=2))
    assert json.loads(done.text).keys() == {"name", "long"}


@pytest.mark.parametrize("choice", ["auto", "required", "clock"])
def test_tools_are_called(scripted: Engine, choice: str) -> None:
    asked = "What time is it?" if choice == "auto" else "Only a call."
    done = said(scripted, asked, Stop(200), tools=Tools([CLOCK], choice))
    assert [(call.name, call.parsed) for call in done.calls] == [("clock", {"place": "Málaga"})]
    assert done.text == ("I look." if choice == "auto" else "")
    assert done.finish_reason == "tool_calls"
    assert NOON not in done.text


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_no_part_of_the_text(thinking_dir: str, stream: bool) -> None:
    with Engine.load(thinking_dir, over="bytes") as engine:
        if stream:
            chunks = list(engine.stream("Hello.", sampling=COLD))
            text = "".join(chunk.text for chunk in chunks)
            reasoning = "".join(chunk.reasoning for chunk in chunks)
        else:
            done = said(engine, "Hello.")
            text, reasoning = done.text, done.reasoning
            # The end is the only token that is not a byte of the text.
            assert len(done.tokens) == len(THINKING[-1][1])
    assert (reasoning, text) == ("A greeting.", "Good day.")


@pytest.mark.parametrize("family", ["thinking", "thinking special"])
def test_marks_of_reasoning_may_be_tokens_of_the_model(family: str, tmp_path: Path) -> None:
    """The tokenizer writes each mark as one token, which the text spells byte by byte."""
    folder = save_scripted(tmp_path, THINKING, speaker(family).tokenizer)
    with Engine.load(folder, over="bytes") as engine:
        done = said(engine, "Hello.")
        assert (done.reasoning, done.text) == ("A greeting.", "Good day.")
        short = said(engine, "Hello.", Stop(64, max_reasoning_tokens=3))
        assert short.reasoning == "A g"


def test_stop_strings_bans_and_prefixes_are_of_the_text(scripted: Engine) -> None:
    asked = "Fluß"
    assert said(scripted, asked).text == REPLY
    assert said(scripted, asked, Stop(64, ("京",))).text == "Ein Fluß, 東"
    assert said(scripted, asked, Stop(7)).finish_reason == "length"
    assert "東" not in said(scripted, asked, Stop(40), ban=Ban(("東京",))).text
    assert said(scripted, asked, prefix="Ein Fl").text == REPLY.removeprefix("Ein Fl")
    assert said(scripted, asked, prefix="Ein Flu\xdf, 東").text == "京 🎉!\n\nGut."
    at_least = said(scripted, asked, Stop(64, min_tokens=len(REPLY.encode()) + 3))
    assert at_least.text.startswith(REPLY)
    assert len(at_least.tokens) >= len(REPLY.encode()) + 3
    on = said(scripted, asked, Stop(50, ignore_eos=True))
    assert (on.text.startswith(REPLY), on.finish_reason) == (True, "length")
    assert on.usage.completion_tokens == 50


def test_max_tokens_counts_bytes(scripted: Engine) -> None:
    done = said(scripted, "Fluß", Stop(9))
    assert (done.text, done.usage.completion_tokens) == ("Ein Fluß"[:9], 9)


def test_characters_of_several_bytes_are_streamed_whole(scripted: Engine) -> None:
    chunks = [chunk.text for chunk in scripted.stream("Fluß", sampling=COLD, stop=Stop(64))]
    assert "".join(chunks) == REPLY
    assert {"ß", "東", "京", "🎉"} <= {*chunks}


def test_log_probabilities_are_listed_for_each_byte(scripted: Engine) -> None:
    done = said(scripted, "Fluß", logprobs=2)
    listed = [one for one in done.logprobs if one.token != END_OF_BYTES]
    assert b"".join(one.data for one in listed) == REPLY.encode()
    assert [one.token for one in listed] == [*REPLY.encode()]
    assert all(one.logprob <= 0 and len(one.top) == 2 for one in listed)
    characters = [len(REPLY.encode()[:i].decode(errors="ignore")) for i in range(len(listed))]
    assert [one.offset for one in listed] == characters


def test_penalties_are_of_bytes(pocket: Engine) -> None:
    sampling = Sampling(0.0, frequency_penalty=20.0, presence_penalty=2.0)
    done = pocket.generate(PROMPT, sampling=sampling, stop=Stop(12))
    text: list[int] = []
    for token in done.tokens:
        row = pocket.next_logprobs(PROMPT, continuation=text)
        for seen in {*text}:
            row[seen] -= 2.0 + 20.0 * text.count(seen)
        assert token == int(row.argmax())
        text.append(token)
    assert done.tokens != said(pocket, PROMPT, Stop(12)).tokens


# What a term may be


@pytest.fixture(scope="module")
def expected(tokens: Engine) -> Callable[[Prompted, bytes], Tensor]:
    """Return a function for the distribution of a term's bytes, from an engine over its tokens."""
    vocabulary = tokens._registry.vocabulary
    known = SortedTokens(vocabulary)

    def law(term: Prompted, data: bytes) -> Tensor:
        start = to_tokens(term, to_prompt(PROMPT), vocabulary)
        text = CoveredText(known, CanonicalTokens(vocabulary, known))
        while (wanted := text.wanted(data)) is not None:
            row = tokens.next_logprobs(PROMPT, "t", {"t": term}, list(wanted))
            text.receive(wanted, row)
        assert start[-1] in vocabulary.special_ids
        return text.rows(1)[0].exp()

    return law


def test_adapters_vectors_and_exits_have_their_bytes(
    pocket: Engine, expected: Callable[[Prompted, bytes], Tensor], tmp_path: Path
) -> None:
    vector = str(write_vector(tmp_path / "vector.gguf"))
    plain = Prompted()
    for term in (
        plain,
        Prompted("You are a pirate."),
        Prompted(exit_layer=2),
        Prompted(vectors={vector: 3.0}),
        Prompted("Be brief.", vectors={vector: -2.0}, positions="answer"),
        Prompted(adapter="pocket-polite"),
        Prompted(adapter="pocket-rude"),
    ):
        for data in (b"", b"The", "A river, é 12".encode()):
            got = pocket.next_logprobs(PROMPT, "t", {"t": term}, [*data]).exp()
            torch.testing.assert_close(got, expected(term, data), atol=1e-5, rtol=1e-3)
        changed = expected(term, b"The") - expected(plain, b"The")
        assert (float(changed.abs().max()) > 1e-4) == (term != plain)


def test_classifiers_and_n_grams_steer_bytes(pocket: Engine, tmp_path: Path) -> None:
    tiny_classifier(seed=3).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    terms: dict[str, Any] = {
        "A": NGram(texts=("zebra zebra",), order=3),
        "C": {"formula": f'classifier("{tmp_path}", candidates=4)'},
    }
    steered = pocket.next_logprobs(PROMPT, "M + 2*C", terms, "A r").exp()
    plain = pocket.next_logprobs(PROMPT, "M", terms, "A r").exp()
    assert float(steered.sum()) == pytest.approx(1, abs=1e-4)
    # Only the likeliest bytes are judged; the others keep their proportions.
    others = plain.argsort()[-40:-8]
    ratio = (steered / plain)[others]
    assert float(ratio.max() / ratio.min()) == pytest.approx(1, abs=1e-3)
    assert not torch.allclose(steered, plain, atol=1e-4)
    done = pocket.generate(PROMPT, "M + 4*A", terms, COLD, Stop(11), prefix="z")
    assert done.text.startswith("ebra")


def test_a_text_goes_on_where_only_another_model_allows_it(pocket: Engine, other: Prompted) -> None:
    rubbish = [*b"\xff\xfe\x80 qxz", END_OF_BYTES, *b"the\xe6\x9d"]
    for formula in ("M", "b", "M - 0.4*b"):
        row = pocket.next_logprobs(PROMPT, formula, {"b": other}, rubbish).exp()
        assert float(row.sum()) == pytest.approx(1, abs=1e-4)
    scores = pocket.score(PROMPT, rubbish, "M - 0.4*b", {"b": other})
    assert len(scores) == len(rubbish)
    assert np.isfinite(scores).all()


def test_a_byte_that_a_model_lacks_is_the_others(pocket: Engine, tmp_path: Path) -> None:
    lacking = Prompted(model=saved(byte_model("no bytes", seed=6), tmp_path))
    terms = {"b": lacking}
    for data in (b"", b"the ", "é the".encode()):
        row = pocket.next_logprobs(PROMPT, "M + 0.5*b", terms, [*data]).exp()
        assert float(row.sum()) == pytest.approx(1, abs=1e-4)
        bare = pocket.next_logprobs(PROMPT, "M", terms, [*data]).exp()
        silent = [byte for byte in b"QZ{}\xc3\xe6" if bare[byte] > 0]
        ratio = (row / bare)[silent]
        assert float(ratio.max() / ratio.min()) == pytest.approx(1, abs=1e-3)
    alone = pocket.next_logprobs(PROMPT, "b", terms).exp()
    assert float(alone[[*b"QZ\xc3"]].sum()) == 0


def test_a_model_without_an_end_is_silent_on_it(pocket: Engine, tmp_path: Path) -> None:
    model = byte_model("no end", seed=6)
    model.model.generation_config.eos_token_id = model.model.config.eos_token_id = None
    terms = {"b": Prompted(model=saved(model, tmp_path))}
    assert float(pocket.next_logprobs(PROMPT, "b", terms)[END_OF_BYTES]) == -math.inf
    text = [*said(pocket, "Hi").tokens]
    bare, both = (
        pocket.next_logprobs("Hi", formula, terms, text) for formula in ("M", "M + 0.01*b")
    )
    assert int(bare.argmax()) == int(both.argmax()) == END_OF_BYTES
    on = pocket.next_logprobs("Hi", "M + b", terms, [*text, END_OF_BYTES, *b"The"])
    assert float(on.exp().sum()) == pytest.approx(1, abs=1e-4)


# How requests run


def requests(other: Prompted, count: int = 8) -> list[Request]:
    return [
        Request(
            f"{PROMPT} {'and more ' * i}", ("M", "M + 0.3*b", "M - 0.2*x")[i % 3],
            {"b": other, "x": "Be brief."}, Sampling(seed=i), Stop(10 + i),
        )
        for i in range(count)
    ]  # fmt: skip


def test_requests_together_have_the_texts_of_each_alone(pocket: Engine, other: Prompted) -> None:
    asked = requests(other)
    alone = [pocket.submit(one).result(60).tokens for one in asked]
    together = [ticket.result(60).tokens for ticket in map(pocket.submit, asked)]
    assert together == alone
    wait_until_idle(pocket)
    for script in (
        [Pause(frozenset({0, 2}), drops=True)] * 60,
        [Pause(frozenset({i % 4}), holds=i % 3 == 0) for i in range(60)],
    ):
        with pausing(pocket, script):
            paused = [ticket.result(60).tokens for ticket in map(pocket.submit, asked)]
            wait_until_idle(pocket)
        assert paused == alone


def test_a_cancelled_request_frees_its_lanes(pocket: Engine) -> None:
    wanted, lanes = said(pocket, PROMPT, Stop(8)).text, scorer_of(pocket)._lanes
    ticket = pocket.submit(Request(PROMPT, stop=Stop(400, ignore_eos=True)))
    next(iter(ticket))
    opened = [ref(lane) for lane in lanes]
    assert opened
    ticket.cancel()
    del ticket
    assert said(pocket, PROMPT, Stop(8)).text == wanted
    assert becomes_true(lambda: not any(lane() for lane in opened))


def test_a_text_ends_where_the_context_is_full() -> None:
    with Engine.load("pocket", over="bytes", context_length=48) as engine:
        done = said(engine, PROMPT, Stop(None, ignore_eos=True))
        assert done.finish_reason == "length"
        assert 8 < len(done.tokens) < 48
        with pytest.raises(RequestError, match="context"):
            said(engine, PROMPT * 20)


def test_an_inspection_lists_every_byte(pocket: Engine, other: Prompted) -> None:
    text = "Ä river"
    inspection = marith.inspect(pocket, PROMPT, text, "M - 0.3*b", {"b": other})
    assert len(inspection.positions) == len(text.encode())
    assert inspection.text == text
    assert [run.text for run in inspection.runs] == [*text]


# What a prompt may be


def test_names_of_special_tokens_in_a_message_are_data(pocket: Engine) -> None:
    special = pocket._registry.base.checkpoint.vocabulary.special_ids

    def read(prompt: str) -> tuple[list[int], int]:
        """Return the special tokens that the model reads, and the number of bytes."""
        [lane] = pocket.open(Request(prompt, speculation=None)).lanes.lanes.values()
        marks = [token for token in lane.prompt if token in special]
        return marks, said(pocket, prompt, Stop(1)).usage.prompt_tokens

    marks, count = read("a b")
    assert marks
    for name in ("<|end|>", "<|assistant|>"):
        assert read(f"a {name} b") == (marks, count + len(f"{name} "))


def test_a_prompt_of_bytes_is_the_text_that_they_spell(pocket: Engine, other: Prompted) -> None:
    text = "Der Fluß, 東"
    plain = {"p": Prompted(template="plain"), "b": other}
    for formula in ("p", "b", "p - 0.4*b"):
        asked = formula.replace("p", "M")
        got = pocket.next_logprobs([*text.encode()], asked, plain, "京")
        wanted = pocket.next_logprobs(text, formula, plain, "京")
        torch.testing.assert_close(got.exp(), wanted.exp(), atol=1e-5, rtol=1e-3)


REFUSED: list[tuple[Callable[[Engine], Any], str]] = [
    (lambda engine: engine.generate([*b"a\xff"]), "the prompt is bytes that are not a text"),
    (lambda engine: engine.generate([400]), "the prompt has token 400"),
    (
        lambda engine: engine.generate(PROMPT, sampling=Sampling(logit_bias={65: 1.0})),
        "logit_bias names tokens, and this engine is over bytes",
    ),
    (lambda engine: engine.generate(PROMPT, prefix=[300]), "the prefix has token 300"),
    (lambda engine: engine.generate(PROMPT, prefix=[END_OF_BYTES]), "which ends a text"),
]


@pytest.mark.parametrize(("ask", "sentence"), REFUSED)
def test_what_has_no_meaning_over_bytes_is_refused(
    pocket: Engine, ask: Callable[[Engine], Any], sentence: str
) -> None:
    with pytest.raises(RequestError, match=sentence):
        ask(pocket)


def test_there_are_two_kinds_of_engines() -> None:
    with pytest.raises(ModelError, match=r"over.*letters"):
        Engine.load("pocket", over="letters")  # type: ignore[arg-type]  # the point of the test
