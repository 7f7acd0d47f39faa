"""Adapters, exits, windows and trees go over lean modules: each test counts those that ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from support.architectures import build
from torch import Tensor

from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.lora import Adapter, read
from marith.scoring.passes.passes import Asked
from marith.scoring.terms.prefix_tree import TreeRunner
from marith.scoring.terms.runner import start_runner
from marith.scoring.terms.whole_texts import Case, WholeTextRunner
from marith.scoring.weights.lean_modules import LeanAttention
from marith.scoring.weights.loader import lay_out
from marith.testing import tiny_classifier

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
TEXTS = [[3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8], [1, 6, 1, 8, 0, 3, 3, 9, 8]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[LeanAttention]:
    """The lean attention modules, as often as they run."""
    seen, forward = list[LeanAttention](), LeanAttention.forward

    def noted(self: LeanAttention, *args: Any, **kwargs: Any) -> Any:
        seen.append(self)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(LeanAttention, "forward", noted)
    return seen


def runner_of(model: Any) -> CachedRunner:
    runner = start_runner(model, model.config.vocab_size, 128)
    assert isinstance(runner, CachedRunner)
    return runner


@torch.inference_mode()
def expected(model: Any, text: list[int]) -> Tensor:
    """The log-probabilities of the next token, [vocab], by transformers' own code."""
    logits = model(input_ids=torch.tensor([text]), use_cache=False).logits
    return torch.log_softmax(logits[0, -1].float(), dim=-1)


def adapters(folder: Path) -> tuple[list[Adapter], list[Any]]:
    """Three adapters, and the model merged with each."""
    found, merged = [], []
    for seed, targets in enumerate((["q_proj", "v_proj"], ["gate_proj", "o_proj"], "all-linear")):
        torch.manual_seed(seed)
        config = LoraConfig(r=2 + seed, target_modules=targets, init_lora_weights=False)
        adapted = get_peft_model(build("llama").eval(), config)
        adapted.save_pretrained(str(folder / str(seed)), save_embedding_layers=False)
        found.append(read(str(folder / str(seed)), build("llama")))
        merged.append(adapted.merge_and_unload().eval())
    return found, merged


def test_rows_with_adapters_of_their_own_run_the_lean_modules(
    tmp_path: Path, ran: list[LeanAttention]
) -> None:
    found, merged = adapters(tmp_path)
    model = build("llama").eval()
    lay_out(model)
    runner = runner_of(model)
    for end in (4, 5, 6):
        ran.clear()
        asked = [
            Asked(i, text[:4], adapter=adapter, continuation=text[4:end])
            for i, (text, adapter) in enumerate(zip(TEXTS, found, strict=True))
        ]
        answers = runner.ask(asked)
        assert len(ran) >= 4  # one pass of four layers for all three
        for answer, one, text in zip(answers, merged, TEXTS, strict=True):
            assert answer is not None
            torch.testing.assert_close(
                answer.logprobs[0], expected(one, text[:end]), atol=2e-4, rtol=0
            )
    assert len(ran) == 4


def test_early_exits_read_the_states_of_lean_modules(ran: list[LeanAttention]) -> None:
    model, lean = build("llama").eval(), build("llama").eval()
    lay_out(lean)
    runner = runner_of(lean)
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([TEXTS[0]]), use_cache=False, output_hidden_states=True)
        states = model.model.norm(out.hidden_states[2])
        early = torch.log_softmax(model.lm_head(states)[0, -1], dim=-1)
    ran.clear()
    [answer] = runner.ask([Asked("a", TEXTS[0], exits=(2,))])
    assert answer is not None
    assert len(ran) == 8  # the first use of exits tries the model once
    [(rows, at)] = answer.exits[2]
    torch.testing.assert_close(rows[at], early, atol=1e-4, rtol=0)
    torch.testing.assert_close(answer.logprobs[0], expected(model, TEXTS[0]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["mistral", "gemma3_text"])
def test_windows_are_read_by_lean_modules(name: str, ran: list[LeanAttention]) -> None:
    model, lean = build(name).eval(), build(name).eval()
    window = model.config.sliding_window
    assert window
    lay_out(lean)
    runner, text = runner_of(lean), [(7 * i) % 50 + 2 for i in range(2 * window + 5)][:100]
    at = len(text) - 3
    for end in range(at, len(text)):
        ran.clear()
        [answer] = runner.ask([Asked("a", text[:at], continuation=text[at:end])])
        assert answer is not None
        torch.testing.assert_close(
            answer.logprobs[0], expected(model, text[:end]), atol=2e-4, rtol=0
        )
    assert len(ran) == 4


def test_a_tree_of_candidates_is_read_by_lean_modules(ran: list[LeanAttention]) -> None:
    model, lean = tiny_classifier(), tiny_classifier()
    lay_out(lean)
    layers = int(model.config.num_hidden_layers)
    runner = TreeRunner(lean, 0, 128, 2**20)
    root = (3, 1, 4, 1, 5, 9, 2, 6)
    cases = [Case("a", [(*root, 5), (*root, 3, 5), (*root, 8), root])]
    whole = WholeTextRunner(model, 0)
    [expected_] = whole.classify(cases)
    ran.clear()
    [answer] = runner.classify(cases)
    assert answer is not None
    assert expected_ is not None
    assert len(ran) == layers  # one pass for all
    torch.testing.assert_close(answer.logits, expected_.logits, atol=1e-5, rtol=1e-4)
