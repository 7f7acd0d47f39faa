"""Loading finds the models whose cached answers would be wrong, whatever their name."""

from __future__ import annotations

import inspect
import json
import warnings
from typing import Any

import pytest
import torch
from support.architectures import build, endless, uncached
from support.runner_questions import CONTEXT, VOCAB, span_of, text
from tokenizers import Tokenizer
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertLMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import marith
from marith.errors import ModelError
from marith.scoring import choose_runner
from marith.scoring.choose_runner import start_runner
from marith.scoring.notices import collecting
from marith.scoring.passes import layer_masks
from marith.scoring.passes.passes import ModelPasses, cache_argument
from marith.scoring.passes.plain_runner import PlainRunner
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.tree_runner import TreeRunner
from marith.testing import END, FAMILIES, START, tiny_model, tiny_tokenizer


def gpt_neo(window: int, vocab: int = VOCAB, layers: int = 2, **more: Any) -> GPTNeoForCausalLM:
    torch.manual_seed(0)
    kinds = [[["global", "local"], layers // 2]]
    config = GPTNeoConfig(
        vocab_size=vocab, hidden_size=32, num_layers=layers, num_heads=4, attention_types=kinds,
        window_size=window, intermediate_size=48, max_position_embeddings=512, bos_token_id=0,
        eos_token_id=None, **more,
    )  # fmt: skip
    return sharpened(GPTNeoForCausalLM(config))


def sharpened(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3)
    return model.eval()


class Careless(LlamaForCausalLM):
    """Takes the positions of all rows to be those of the longest, as long as it has a cache."""

    def forward(self, *args: Any, cache: Any = None, **given: Any) -> Any:
        if cache is not None:
            longest = given["position_ids"].max(dim=0, keepdim=True).values
            given["position_ids"] = longest.expand_as(given["position_ids"])
            given[cache_argument(super())] = cache
        return super().forward(*args, **given)


def reasons(model: Any, context_length: int = CONTEXT) -> list[str]:
    """The warnings of a runner over this model; it is cached where there are none."""
    with collecting() as said:
        runner = start_runner(model, VOCAB, context_length)
    assert runner.plain == bool(said)
    return said


def refused(*_: Any, **__: Any) -> None:
    raise ValueError("no states")


def by_rectangles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a model no other runner with a cache."""
    monkeypatch.setattr(choose_runner, "_hands_keys_on", lambda _: False)
    monkeypatch.setattr(choose_runner, "StateRunner", refused)


@pytest.mark.parametrize(("window", "said"), [(16, "differ by"), (256, "beyond its window of 256")])
@pytest.mark.parametrize("layers", [2, 6])
def test_a_window_that_no_rule_knows_is_found_by_reading_beyond_it(
    window: int, said: str, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_masks, "_READ", {"global", "local"})
    by_rectangles_alone(monkeypatch)
    [warning] = reasons(gpt_neo(window, layers=layers), 512)
    assert said in warning
    assert not reasons(gpt_neo(window, layers=layers), window)


def test_a_window_that_cannot_be_built_small_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny_model(context_length=512)
    assert not reasons(model, 512)
    model.config.local_attention_window = 300
    assert not reasons(model, 512)  # a name that this model gives no meaning
    by_rectangles_alone(monkeypatch)
    monkeypatch.setattr(type(model), "__init__", None)
    [warning] = reasons(model, 512)
    assert "its window of 300 tokens cannot be checked" in warning


@pytest.mark.parametrize("window", [16, 256])
def test_a_classifier_beyond_its_window_is_judged_whole(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = gpt_neo(window, pad_token_id=0).config
    model = sharpened(AutoModelForSequenceClassification.from_config(config))
    with pytest.raises(ModelError, match="layers of kind local"):
        TreeRunner(model, 0, 512, 2**20)
    monkeypatch.setattr(layer_masks, "_READ", {"global", "local"})
    with pytest.raises(ModelError, match="differ by"):
        TreeRunner(model, 0, 512, 2**20)


@pytest.mark.parametrize("length", [2, 5, 9])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_context_shorter_than_what_is_compared_is_served(family: str, length: int) -> None:
    model = tiny_model(family, context_length=length)
    with collecting(), marith.Engine.load(model, tokenizer=tiny_tokenizer()) as engine:
        torch.testing.assert_close(
            engine.next_logprobs("a"), uncached(model, [2])[-1], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sound_model_is_cached_in_every_precision(family: str, dtype: torch.dtype) -> None:
    model = tiny_model(family, sharpness=1.0).to(dtype)
    model.set_attn_implementation("eager" if dtype == torch.float16 else "sdpa")
    assert not reasons(model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_wrong_positions_are_found_in_every_precision(dtype: torch.dtype) -> None:
    model = tiny_model(sharpness=0.5)
    model.__class__ = Careless
    [warning] = reasons(model.to(dtype))
    assert "cached and uncached passes differ" in warning


def test_the_warning_names_model_reason_and_the_callers_line_for_each_model() -> None:
    for name in ("first", "second"):
        model = build("recurrent_gemma")
        model.config._name_or_path = name
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
            marith.Engine.load(model, tokenizer=endless()).close()
        [warning] = caught
        assert str(warning.message).startswith(f"'{name}' runs without a cache, which is slower: ")
        assert (warning.filename, warning.lineno) == (__file__, line)


def test_a_model_without_a_cache_computes_the_logits_it_is_asked_for() -> None:
    model, widths = tiny_model(), []
    runner = PlainRunner(ModelPasses(model, VOCAB), CONTEXT)
    model.lm_head.register_forward_hook(lambda _m, args, _out: widths.append(args[0].shape[1]))
    for count in (1, 3):
        [answer] = runner.ask([span_of(0, text(60), count)])
        want = uncached(model, text(60))[-count:]
        assert answer is not None
        torch.testing.assert_close(answer.logprobs, want, atol=1e-5, rtol=0)
        assert widths[-2:] == [count, 60]


@pytest.mark.parametrize("make", [tiny_model, lambda: gpt_neo(16)])
def test_a_model_whose_logits_are_nan_is_refused_with_and_without_a_cache(make: Any) -> None:
    broken = make()
    with torch.no_grad():
        broken.get_output_embeddings().weight.fill_(torch.nan)
    with pytest.raises(ModelError, match="are not finite numbers"), collecting():
        marith.Engine.load(broken, tokenizer=tiny_tokenizer())


def holed() -> Any:
    """A tokenizer that has no tokens of the numbers 5 and 9."""
    tokenizer = tiny_tokenizer()
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["model"]["vocab"] = {k: i for k, i in state["model"]["vocab"].items() if i not in (5, 9)}
    raw = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token=START, eos_token=END)


@pytest.mark.parametrize("make", [tiny_model, lambda: gpt_neo(16)])
def test_ids_without_a_token_are_never_sampled(make: Any) -> None:
    formulas = ("M", "uniform()", "ngram(texts=('a b c',)) + 0.1*M", "union(uniform(), M)")
    hot = marith.Sampling(seed=1, temperature=5.0)
    with collecting():
        engine = marith.Engine.load(make(), tokenizer=holed())
    with engine:
        for formula in formulas:
            row = engine.next_logprobs("a b", formula)
            assert row[[5, 9]].isneginf().all(), formula
            assert float(row.exp().sum()) == pytest.approx(1, abs=1e-5)
            assert not {5, 9} & set(
                engine.generate("a", formula, None, hot, marith.Stop(60)).tokens
            )


def test_a_bidirectional_model_is_refused_also_with_unused_ids() -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    model = sharpened(BertLMHeadModel(BertConfig(vocab_size=VOCAB, num_hidden_layers=2, **sizes)))
    with pytest.raises(ModelError, match="not a causal language model"):
        marith.Engine.load(model, tokenizer=holed())


def test_an_id_that_ends_a_text_is_not_unused() -> None:
    assert Vocabulary(holed(), 28).holes == (5, 9)
    assert Vocabulary(holed(), 28, [9]).holes == (5,)
    assert Vocabulary(tiny_tokenizer(), 40).holes == ()
