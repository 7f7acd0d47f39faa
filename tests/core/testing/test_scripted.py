"""A scripted model returns its script, and runs everywhere that other models run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.reference import Reference
from torch import Tensor
from transformers import AutoTokenizer, DynamicCache

import marith
from marith import Request, Sampling, Stop
from marith.errors import ModelError
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.loader import locate
from marith.testing import (
    CHAT_TEMPLATE,
    save_scripted,
    scripted_model,
    tiny_tokenizer,
)

TOKENIZER = AutoTokenizer.from_pretrained(locate("pocket"))
GREEDY = Sampling(temperature=0)
COMPOSED = "M + 0.5*(formal - M)"
TERMS = {"formal": "You are formal."}
REPLY = "Good day, 你好啊集团! <think>so</think> naïve 🙂"
SCRIPT = [
    ("Hello", REPLY),
    (r"user\|>Hi<", "Short."),
    ("Hi", "After more than that."),
    ("What is .*formal", "It is."),
]
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
    lambda text: not any(special in text for special in TOKENIZER.all_special_tokens)
)


def prompt(text: str) -> list[int]:
    messages = [{"role": "user", "content": text}]
    rendered = TOKENIZER.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(TOKENIZER.encode(rendered, add_special_tokens=False))


@torch.inference_mode()
def logits(model: Any, tokens: list[int]) -> Tensor:
    """[length, vocab], in one pass."""
    out: Tensor = model(torch.tensor([tokens])).logits[0]
    return out


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Loaded from a directory, like any checkpoint."""
    where = save_scripted(tmp_path_factory.mktemp("scripted"), SCRIPT)
    with marith.Engine.load(where, device="cpu") as engine:
        yield engine


@given(reply=texts)
def test_a_script_is_returned_exactly(reply: str) -> None:
    model = scripted_model([("Hello", reply)], TOKENIZER)
    tokens = torch.tensor([prompt("Hello")])
    answer = model.generate(  # transformers' own
        tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=200, do_sample=False
    )[0, tokens.shape[1] :].tolist()
    assert answer.pop() == TOKENIZER.eos_token_id
    assert TOKENIZER.decode(answer) == reply


def test_rows_of_unequal_length_get_their_own_replies() -> None:
    model = scripted_model([(r"^<\|user\|>Hi<", "Short."), ("Hello", REPLY)], TOKENIZER)
    short, long = prompt("Hi"), prompt("Hello, and all that one says to begin with?")
    padding = [TOKENIZER.pad_token_id] * (len(long) - len(short))
    rows, mask = [padding + short, long], [[0] * len(padding) + [1] * len(short), [1] * len(long)]
    answers = model.generate(
        torch.tensor(rows), attention_mask=torch.tensor(mask), max_new_tokens=60, do_sample=False
    )[:, len(long) :]
    assert TOKENIZER.batch_decode(answers, skip_special_tokens=True) == ["Short.", REPLY]


@given(reply=texts, data=st.data())
def test_a_reply_depends_on_the_text_and_not_on_its_tokens(reply: str, data: st.DataObject) -> None:
    """Also inside a character, where no tokenizer would cut it."""
    model, whole = scripted_model([("Hello", reply)], TOKENIZER), reply.encode()
    end = data.draw(st.integers(0, len(whole)))
    tokens = [model._tokens[whole[i : i + 1]] for i in range(end)]
    after = logits(model, prompt("Hello") + tokens)[-1]
    best = model._data[int(after.argmax())]
    assert best == b"<|end|>" if end == len(whole) else whole[end:].startswith(best)
    begins = [bool(each) and whole[end:].startswith(each) for each in model._data]
    begins[int(after.argmax())] = True
    preferred = torch.tensor(begins)
    assert after[preferred].min() > after[~preferred].max()


@given(tokens=st.lists(st.integers(0, 4095), min_size=2, max_size=20), cut=st.integers(1, 19))
def test_the_cache_does_not_change_replies(tokens: list[int], cut: int) -> None:
    model = scripted_model(SCRIPT, TOKENIZER)
    tokens = prompt("Hello") + tokens
    cut = min(cut, len(tokens) - 1)
    with torch.inference_mode():
        cache = DynamicCache(config=model.config)
        first = model(torch.tensor([tokens[:cut]]), cache=cache).logits[0]
        rest = model(torch.tensor([tokens[cut:]]), cache=cache).logits[0]
    assert torch.equal(torch.cat([first, rest]), logits(model, tokens))


def test_logits_are_kept_at_the_positions_that_are_asked() -> None:
    model = scripted_model(SCRIPT, TOKENIZER)
    tokens = torch.tensor([prompt("Hello")])
    whole = model(tokens).logits
    assert torch.equal(model(tokens, logits_to_keep=2).logits, whole[:, -2:])
    places = torch.tensor([0, 2])
    assert torch.equal(model(tokens, logits_to_keep=places).logits, whole[:, places])


def test_it_is_loaded_and_cached_like_any_model(engine: marith.Engine) -> None:
    assert ", cached, " in repr(engine)
    question = "Hello, and all that one says to begin a conversation of some length?"
    first, second = (engine.generate(question, COMPOSED, TERMS, GREEDY) for _ in range(2))
    assert first.text == second.text == REPLY
    assert first.usage.cached_tokens == 0
    assert second.usage.cached_tokens == second.usage.prompt_tokens - 1


@pytest.mark.parametrize("seed", range(4))
def test_the_engine_gives_the_text_of_the_reference_decoder(
    engine: marith.Engine, seed: int
) -> None:
    """So hot that it leaves the script."""
    model = scripted_model(SCRIPT, TOKENIZER)
    reference = Reference({None: (model, Vocabulary(TOKENIZER, 4096, [1]))})
    request = Request("Hello", "1.5*M - 0.5*formal", TERMS, Sampling(3, seed=seed), Stop(12))
    text, tokens, _ = reference.decode(request)
    answer = engine.submit(request).result()
    assert (answer.text, answer.tokens) == (text, tokens)
    assert answer.text != REPLY[: len(answer.text)] or len(tokens) == 12


def test_a_pattern_sees_what_the_term_sees(engine: marith.Engine) -> None:
    """With system text, so that one term may have an answer and another term none."""
    question = "What is this?"
    messages = [{"role": "user", "content": question}]
    assert engine.generate(messages, "formal", TERMS, GREEDY).text == ""
    messages.append({"role": "user", "content": "I mean, formal?"})
    assert engine.generate(messages, "M", None, GREEDY).text == "It is."


def test_a_prompt_outside_the_script_ends_the_answer() -> None:
    model = scripted_model(SCRIPT, TOKENIZER)
    for question, answer in [("Hello", "Bad"), ("Nothing", ""), ("Hi", "Short. And more")]:
        after = logits(model, prompt(question) + TOKENIZER.encode(answer))[-1]
        assert int(after.argmax()) == TOKENIZER.eos_token_id


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ([("(", "reply")], r"'\('"),
        ([("Hello",)], r"\('Hello',\)"),
        ([("Hello", 3)], r"\('Hello', 3\)"),
        (["Hello"], "'Hello'"),
    ],
)
def test_an_invalid_script_is_refused(script: Any, named: str) -> None:
    with pytest.raises(ModelError, match=named):
        scripted_model(script, TOKENIZER)


def test_a_tokenizer_that_cannot_write_every_text_is_refused() -> None:
    with pytest.raises(ModelError, match="byte-level tokenizer"):
        scripted_model(SCRIPT, tiny_tokenizer(chat_template=CHAT_TEMPLATE))


@pytest.mark.parametrize(
    "template",
    [None, "{{ messages[0].content }}", "{{ 'now' if add_generation_prompt else 'then' }}"],
)
def test_a_template_that_does_not_open_an_answer_is_refused(template: str | None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(locate("pocket"))
    tokenizer.chat_template = template
    with pytest.raises(ModelError, match="template"):
        scripted_model(SCRIPT, tokenizer)
