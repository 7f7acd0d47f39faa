"""Adapters as terms: distributions of the merged models, in one pass for all adapters."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from marith import Engine, Prompted, Request, Sampling, Stop
from marith.decoding.evaluate import evaluate
from marith.testing import passes_of, tiny_model, tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
PROMPT = "a b c d e"


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The folders of two random adapters of one base, each with its merged model."""
    base, found = tiny_model(seed=1), {}
    for seed in (1, 2):
        folder = str(tmp_path_factory.mktemp("adapter"))
        config = LoraConfig(r=3, lora_alpha=9, init_lora_weights=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            adapted = get_peft_model(copy.deepcopy(base), config)
        adapted.save_pretrained(folder, save_embedding_layers=False)
        found[folder] = adapted.merge_and_unload().eval()
    return found


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(tiny_model(seed=1), tokenizer=tiny_tokenizer()) as engine:
        yield engine


@torch.inference_mode()
def said(model: Any, tokens: list[int]) -> torch.Tensor:
    return torch.log_softmax(model(torch.tensor([tokens])).logits[0, -1:].float(), -1)


def test_dexperts_over_one_base_is_one_pass_a_token(engine: Engine, merged: dict[str, Any]) -> None:
    (expert, anti), tokens = merged, engine.encode(PROMPT)
    formula = Prompted() + 1.5 * (Prompted(adapter=expert) - Prompted(adapter=anti))
    base = tiny_model(seed=1)
    spoken = {
        Prompted(): said(base, tokens),
        Prompted(adapter=expert): said(merged[expert], tokens),
        Prompted(adapter=anti): said(merged[anti], tokens),
    }
    got = engine.next_logprobs(PROMPT, formula)
    torch.testing.assert_close(got, evaluate(formula, spoken)[0], atol=1e-4, rtol=0)
    assert float((got - spoken[Prompted()][0]).abs().max()) > 0.1
    text = f"M + 1.5*(prompted(adapter={expert!r}) - prompted(adapter={anti!r}))"
    answer = engine.generate(PROMPT, text, sampling=Sampling(seed=1), stop=Stop(12))
    steps = len(answer.tokens) + (answer.finish_reason == "stop")
    assert (answer.stats.passes, answer.stats.calls) == (steps, 3 * steps)


def test_adapters_do_not_share_cached_prefixes(engine: Engine, merged: dict[str, Any]) -> None:
    prompt = " ".join("abcdefghijklmnopqrst")
    want = {}
    for folder in [None, *merged]:
        with Engine.load(tiny_model(seed=1), tokenizer=tiny_tokenizer()) as fresh:
            want[folder] = fresh.next_logprobs(prompt, Prompted(adapter=folder))
    for folder in [*merged, None, *merged, None]:
        got = engine.next_logprobs(prompt, Prompted(adapter=folder))
        torch.testing.assert_close(got, want[folder], atol=1e-4, rtol=0)


def test_requests_with_and_without_adapters_share_passes_and_say_what_they_say_alone(
    engine: Engine, merged: dict[str, Any]
) -> None:
    terms = {f"t{i}": Prompted(adapter=folder) for i, folder in enumerate(merged)}
    asked = [
        Request(PROMPT, formula, terms, Sampling(seed=i), Stop(15))
        for i, formula in enumerate(["M", "t0", "2*t1 - M", "M + t0 - 0.5*t1", "M"] * 2)
    ]
    alone = [engine.submit(one).result(60) for one in asked]
    before = passes_of(engine).count
    together = [ticket.result(60) for ticket in [engine.submit(one) for one in asked]]
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    passes = passes_of(engine).count - before
    assert passes < sum(one.stats.passes for one in alone) / 2
