"""The engine on an accelerator: what it computes there is what it computes on the CPU.

`make gpu` runs it; without CUDA it is skipped. MARITH_TEST_DEVICE=cpu runs it on the CPU, which
shows that the tests themselves hold.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.fixed_shapes import engine_at_fixed_shapes, require_texts_alone
from support.hooked_model import adapter_of, by_hooks, vector
from support.runner_questions import span_of
from transformers import LlamaConfig, LlamaForCausalLM

from marith import Classifier, Engine, Grammar, NGram, Plan, Prompted, Sampling, Stop
from marith.scoring.choose_runner import start_runner
from marith.scoring.weights.loader import from_loaded
from marith.scoring.weights.placing import Placement
from marith.testing import tiny_tokenizer

DEVICE = os.environ.get("MARITH_TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.skipif(
        DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no CUDA device here"
    ),
    pytest.mark.filterwarnings("ignore:.*enlarges rounding"),
]
CHAT = [{"role": "user", "content": "Tell me of your day."}]
TERMS: dict[str, Any] = {
    "rude": "You are rude.",
    "kind": "You are kind.",
    "polite": Prompted(adapter="pocket-polite"),
    "coarse": Prompted(adapter="pocket-rude"),
    "early": Prompted(exit_layer=3),
    "small": Prompted(model="pocket-draft"),
    "toxic": Classifier("pocket-toxicity", "toxic"),
    "seen": NGram(texts=("dogs are kind and cats are calm",)),
}
FORMULAS = [
    "M",
    "M - 0.5*rude + 0.3*kind",
    "M + polite - 0.5*coarse",
    "2*M - early",
    "M - 0.96*union(rude, M) + 0.04*kind",
    "M - 2*toxic",
    "0.7*M + 0.2*small + 0.1*seen",
]
FAR = {"float32": 2e-3, "bfloat16": 0.2}  # log-probabilities, where they are above −12


@pytest.fixture(scope="module", params=FAR)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, Engine, float]]:
    """The engine on the device in a type, and that on the CPU in float32."""
    with (
        Engine.load("pocket", device=DEVICE, dtype=request.param) as there,
        Engine.load("pocket", device="cpu", dtype="float32") as here,
    ):
        yield there, here, FAR[request.param]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_gives_the_same_distribution_on_the_gpu(pair: Any, formula: str) -> None:
    there, here, most = pair
    rows = [one.next_logprobs(CHAT, formula, TERMS).cpu() for one in (there, here)]
    likely = rows[1] > -12
    assert float((rows[0] - rows[1])[likely].abs().max()) <= most * (3 if "union" in formula else 1)


def test_batched_scores_equal_scores_alone_also_with_a_long_prompt(pair: Any) -> None:
    there, here, most = pair
    long = [{"role": "user", "content": "The sea is wide and blue. " * 90}]
    prompts = [CHAT, long, *([{"role": "user", "content": f"{i} dogs"}] for i in range(14))]
    futures = [there.submit_scoring(one, "They are kind.", FORMULAS[1], TERMS) for one in prompts]
    for prompt, future in zip(prompts, futures, strict=True):
        wanted = here.score(prompt, "They are kind.", FORMULAS[1], TERMS)
        assert future.result().logprobs == pytest.approx(wanted, abs=8 * most)


@pytest.mark.parametrize("plan", ["auto", Plan({"rude": 3, "kind": 3})])
def test_drafts_do_not_change_a_seeded_text(pair: Any, plan: Any) -> None:
    there, _, most = pair
    if most > 0.01:
        pytest.skip("in bfloat16 a draft's row is rounded otherwise than a step's")
    # A plan of one's own draws by other numbers: there temperature 0 keeps the text.
    sampling = Sampling(seed=3) if plan == "auto" else Sampling(temperature=0)
    asked = CHAT, FORMULAS[1], TERMS, sampling, Stop(40)
    texts = [there.generate(*asked, speculation=one).tokens for one in (plan, None)]
    assert texts[0] == texts[1]


def test_an_answer_on_the_gpu_follows_its_grammar(pair: Any) -> None:
    there, _, _ = pair
    text = there.generate(
        CHAT, FORMULAS[1], TERMS, Sampling(seed=1), Stop(40), grammar=Grammar.regex("[a-f]{5} no")
    ).text
    assert text.endswith(" no")
    assert len(text) == 8


@pytest.mark.parametrize(
    ("dtype", "strength", "most"),
    [("float32", 0.0, 1e-4), ("float32", 0.3, 1e-4), ("bfloat16", 0.3, 0.1)],
)
@torch.inference_mode()
def test_steps_of_fixed_shape_equal_eager_steps(dtype: str, strength: float, most: float) -> None:
    """Captured as CUDA graphs where there is CUDA; fused layers are off there.

    After some steps, other texts have other strengths of the same vectors, which are written into
    the tables that the captured steps read.
    """
    config = LlamaConfig(
        vocab_size=128, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval().to(DEVICE, getattr(torch, dtype))
    plain = copy.deepcopy(model)
    from_loaded(model, tiny_tokenizer([f"w{i}" for i in range(126)]), Placement())
    captured, eager = (start_runner(model, 128, 256, capture=one) for one in (True, False))
    parts = [vector(model, i) for i in range(3)] if strength else []
    for turn in range(3):
        push = [adapter_of(model, (part, strength * (1 + turn))) for part in parts]
        for length in range(1, 5):
            asked = [
                span_of(
                    (turn, i), [3, 5, 9 + i], 1, dict(enumerate(push)).get(i),
                    continuation=[*range(length)],
                )
                for i in range(5)
            ]  # fmt: skip
            answers = [one.ask(asked) for one in (captured, eager)]
            for span, *both in zip(asked, *answers, strict=True):
                want = by_hooks(plain, "model.layers", span.tokens, span.lane.adapter)[-1]
                for answer in both:
                    assert answer is not None
                    assert float((answer.logprobs[-1].cpu() - want).abs().max()) <= most


@pytest.mark.parametrize("speculation", [None, "auto"])
def test_texts_that_join_end_pause_and_leave_at_fixed_shapes_are_those_alone(
    speculation: str | None,
) -> None:
    with engine_at_fixed_shapes(DEVICE) as engine:
        require_texts_alone(engine, 2, speculation)
