"""The laws of scorers, held by llama.cpp: within the rounding of its own kernels.

It multiplies a row by other kernels beside others, and keeps keys in float16: so answers alone and
in a batch differ by rounding, which BATCH bounds, per format, in total variation. Run by
`make llamacpp`, which builds the library; skipped where it is absent.
"""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.ggml_files import Q4_K
from support.gguf_families import family_model, write_family
from transformers import AutoModelForCausalLM, AutoTokenizer

from marith import Classifier, Engine, ModelError, Plan, Prompted, Request, Sampling, Stop
from marith.request.prompt import to_prompt
from marith.scoring.checkpoints.locate import WEIGHTS
from marith.testing.gguf_file import write_gguf

pytest.importorskip("llama_cpp", reason="llama-cpp-python is absent: `make llamacpp` builds it")

from marith.scoring.llama_cpp.ggml_context import GGMLContext, Item
from marith.scoring.llama_cpp.ggml_model import FEWEST

POCKET = str(WEIGHTS / "pocket")
# By format: total variation of a row computed alone and in a batch, and to the dequantised model.
FORMATS = {"f32": (0.004, 0.004), "f16": (0.004, 0.004), "q8_0": (0.06, 0.08), "q4_0": (0.06, 0.08)}
PROMPTS = [
    "Tell me of 12 dogs.", "Who are you?", "Name a color, and say why you like it so much.",
    "Hi", "What is two plus two?", "Write a line on the sea.",
]  # fmt: skip
TERMS: dict[str, Any] = {"rude": "You are rude.", "kind": "You are kind and calm."}
FORMULA = "M - 0.4*rude + 0.3*kind"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(POCKET)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    made = tmp_path_factory.mktemp("ggml")
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    for numbers in FORMATS:
        write_gguf(model, made / f"{numbers}.gguf", numbers, tokenizer)
    return made


@pytest.fixture(params=FORMATS)
def numbers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(folder: Path, numbers: str) -> Iterator[Engine]:
    with Engine.load(folder / f"{numbers}.gguf", backend="llama.cpp") as loaded:
        yield loaded


@pytest.fixture
def exact(folder: Path) -> Iterator[Engine]:
    with Engine.load(folder / "f32.gguf", backend="llama.cpp") as loaded:
        yield loaded


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """The total variation of two rows of log-probabilities."""
    return float((one.exp() - other.exp()).abs().sum()) / 2


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_it_computes_the_dequantised_model(engine: Engine, folder: Path, numbers: str) -> None:
    with Engine.load(folder / f"{numbers}.gguf") as plain:
        for prompt in PROMPTS:
            rows = [one.next_logprobs(chat(prompt), FORMULA, TERMS) for one in (engine, plain)]
            assert apart(*rows) <= FORMATS[numbers][1]


def test_k_formats_are_read_by_both(folder: Path) -> None:
    with Engine.load(Q4_K, backend="llama.cpp") as one, Engine.load(Q4_K) as other:
        assert apart(one.next_logprobs("the thing"), other.next_logprobs("the thing")) <= 0.05
        assert one.encode("the thing") == other.encode("the thing")


def test_alone_it_is_llama_cpp_itself(engine: Engine) -> None:
    """The same call gives the same numbers."""
    tokens = engine._registry.base.read(Prompted(), to_prompt(chat(PROMPTS[0])))
    model = engine._registry.base.checkpoint.model
    context = GGMLContext(model)
    items = [Item(token, i, 0, i == len(tokens) - 1) for i, token in enumerate(tokens)]
    logits = context.decode(items)
    assert logits is not None
    wanted = torch.from_numpy(logits[0]).log_softmax(-1)
    found = engine.next_logprobs(chat(PROMPTS[0]))
    assert float((found - wanted).abs().max()) <= 2e-6  # of torch's own last bits


def test_batched_is_alone(engine: Engine, folder: Path, numbers: str) -> None:
    continuation = "They say that dogs are kind."
    with Engine.load(folder / f"{numbers}.gguf", backend="llama.cpp") as fresh:
        alone = [fresh.score(chat(one), continuation, FORMULA, TERMS) for one in PROMPTS]
    futures = [engine.submit_scoring(chat(one), continuation, FORMULA, TERMS) for one in PROMPTS]
    for future, wanted in zip(futures, alone, strict=True):
        found = future.result().logprobs
        far = [abs(np.exp(a) - np.exp(b)) for a, b in zip(found, wanted, strict=True)]
        assert max(far) <= FORMATS[numbers][0]


def test_rewind_is_fresh_and_shared_is_own(engine: Engine, folder: Path, numbers: str) -> None:
    """Texts that begin alike, one after another, in an engine that keeps what it has read."""
    start = "Once there were three dogs, and they lived by the sea, and every day they "
    for end, count in itertools.product(("ran.", "slept in the sun", ""), (1, 2)):
        kept = engine.next_logprobs(chat(start * count + end), FORMULA, TERMS)
        with Engine.load(folder / f"{numbers}.gguf", backend="llama.cpp") as fresh:
            anew = fresh.next_logprobs(chat(start * count + end), FORMULA, TERMS)
        assert apart(kept, anew) <= FORMATS[numbers][0]
    assert engine.generate(chat(start * 2), stop=Stop(2)).stats.cached > 20


def test_memory_grows_with_what_is_held(exact: Engine) -> None:
    context = exact._registry.base.runner._bare._store.context  # type: ignore[union-attr]
    assert context.cells == FEWEST
    long = "The sea is wide and blue. " * 60
    before = exact.next_logprobs(chat("Who are you?"))
    row = exact.next_logprobs(chat(long), FORMULA, TERMS)
    assert context.cells > 3 * FEWEST
    with Engine.load("pocket") as plain:
        assert apart(row, plain.next_logprobs(chat(long), FORMULA, TERMS)) <= 0.01
    assert apart(before, exact.next_logprobs(chat("Who are you?"))) <= 0.004


def test_a_little_memory_is_enough_for_one_text_after_another(folder: Path) -> None:
    bytes_each = 2 * 6 * 4 * 64 * 2  # keys and values of a token, in float16
    with Engine.load(
        folder / "f32.gguf", backend="llama.cpp", cache_bytes=700 * bytes_each
    ) as small:
        for i in range(8):
            small.next_logprobs(chat(f"{i} " + "The sea is wide and blue. " * 40))
        assert small._registry.cache_limit.nbytes <= 1100 * bytes_each


@pytest.mark.parametrize("plan", ["auto", Plan({"rude": 3, "kind": 3})])
def test_drafts_leave_the_text_as_it_is(exact: Engine, plan: Any) -> None:
    asked = Sampling(temperature=0), Stop(24)
    wanted = exact.generate(chat(PROMPTS[0]), FORMULA, TERMS, *asked, speculation=None)
    found = exact.generate(chat(PROMPTS[0]), FORMULA, TERMS, *asked, speculation=plan)
    assert found.tokens == wanted.tokens


def test_adapters_are_those_of_the_torch_model(exact: Engine, folder: Path) -> None:
    """Each has a context of its own; the base model's rows are as without them."""
    terms = {"polite": Prompted(adapter="pocket-polite"), "rude": Prompted(adapter="pocket-rude")}
    with Engine.load("pocket") as plain:
        for formula in ("polite", "M + polite - 0.5*rude"):
            rows = [one.next_logprobs(chat("Hi"), formula, terms) for one in (exact, plain)]
            assert apart(*rows) <= 0.004
        assert apart(exact.next_logprobs(chat("Hi")), plain.next_logprobs(chat("Hi"))) <= 0.004
    with pytest.raises(ModelError, match="there is no adapter directory"):
        exact.next_logprobs(chat("Hi"), "a", {"a": Prompted(adapter="./nowhere")})


def test_terms_of_torch_stand_beside_those_of_llama_cpp(exact: Engine, folder: Path) -> None:
    terms = {
        "small": Prompted(model="pocket-draft"),
        "file": Prompted("You are rude.", model=str(folder / "q8_0.gguf")),
        "toxic": Classifier("pocket-toxicity", "toxic"),
    }
    formula = "M + 0.2*small - 0.3*file - 0.5*toxic"
    with Engine.load("pocket") as plain:
        rows = [one.next_logprobs(chat("Hi"), formula, terms) for one in (exact, plain)]
    assert apart(*rows) <= 0.03
    names = exact.status().checkpoints
    assert len(names) == 4


def test_a_recurrent_model_is_read_anew_where_it_cannot_be_cut_back(
    tmp_path: Path, tokenizer: Any
) -> None:
    model = family_model("mamba", 4096)
    write_family(model, tmp_path / "it.gguf", tokenizer)
    with (
        Engine.load(tmp_path / "it.gguf", backend="llama.cpp", max_lanes=64) as one,
        Engine.load(tmp_path / "it.gguf", dtype="float32") as plain,
    ):
        assert one._registry.base.checkpoint.model.recurrent
        for text in ("the sea is wide", "the sea is", "the sea is blue", "the sea is wide"):
            rows = [each.next_logprobs(text, FORMULA, TERMS) for each in (one, plain)]
            assert apart(*rows) <= 0.01
        futures = [one.submit_scoring(f"{i} dogs", "are kind", FORMULA, TERMS) for i in range(20)]
        found = [sum(future.result().logprobs) for future in futures]
        wanted = [sum(plain.score(f"{i} dogs", "are kind", FORMULA, TERMS)) for i in range(20)]
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 0.05


def test_windows_are_read_anew_where_their_keys_are_gone(tmp_path: Path, tokenizer: Any) -> None:
    """llama.cpp gives places behind a window to others, whatever it says of a cut."""
    model = family_model("gemma2", 4096, max_position_embeddings=2048)
    write_family(model, tmp_path / "it.gguf", tokenizer)
    long = "the sea is wide and blue and " * 30
    with (
        Engine.load(tmp_path / "it.gguf", backend="llama.cpp") as one,
        Engine.load(tmp_path / "it.gguf", dtype="float32") as plain,
    ):
        wanted = plain.next_logprobs(long)
        one.score(long, [*range(100, 220)])
        for i in range(150):
            one.next_logprobs(f"{i} dogs 150 are kind and they like the sea")
        assert apart(one.next_logprobs(long), wanted) <= 0.01
        for end in ("ran", "slept", ""):
            rows = [each.next_logprobs(long[:-40] + end) for each in (one, plain)]
            assert apart(*rows) <= 0.01


def test_long_rotary_factors_do_not_depend_on_who_else_is_read(
    tmp_path: Path, tokenizer: Any
) -> None:
    factors = np.linspace(1, 4, 4, dtype=np.float32)
    path = tmp_path / "it.gguf"
    write_family(
        family_model("phi3", 4096, max_position_embeddings=2048),
        path,
        tokenizer,
        extra={"rope_factors_long.weight": factors, "rope_factors_short.weight": factors / factors},
        rope__scaling__original_context_length=300,
        rope__scaling__attn_factor=1.0,
    )
    with (
        pytest.warns(UserWarning, match="rotary factors of its long ones"),
        Engine.load(path, backend="llama.cpp") as one,
    ):
        text = "the sea is wide and blue and " * 14
        first = one.next_logprobs(text)
        for i in range(40):
            one.next_logprobs(f"{i} dogs 150 are kind and they like the sea")
        assert apart(one.next_logprobs(text), first) <= 0.01


def test_adapters_that_nobody_uses_are_freed(exact: Engine) -> None:
    from marith.scoring.llama_cpp import ggml_model

    runner: Any = exact._registry.base.runner
    adapter = runner.read_adapter("pocket-polite")
    held = weakref.ref(adapter.held)
    assert isinstance(adapter.held, ggml_model.GGMLAdapter)
    runner._of(adapter)
    del adapter
    gc.collect()
    assert held() is None
    assert not runner._adapted


def test_the_memory_of_a_long_text_can_be_given_back(exact: Engine) -> None:
    exact.next_logprobs(chat("The sea is wide and blue. " * 60))
    context = exact._registry.base.runner._bare._store.context  # type: ignore[union-attr]
    assert context.cells > 2 * FEWEST
    exact._registry.cache_limit.drop_idle(10**9)
    assert context.cells == FEWEST


def test_a_file_that_ends_the_process_ends_another_one(tmp_path: Path, folder: Path) -> None:
    """llama.cpp asserts what a file holds: it is tried in a process of its own."""
    raw = bytearray((folder / "q8_0.gguf").read_bytes())
    at = raw.index(b"llama.block_count") + len(b"llama.block_count") + 4
    raw[at : at + 4] = (0).to_bytes(4, "little")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(raw)
    with pytest.raises(ModelError, match=r"llama\.cpp does not load"):
        Engine.load(bad, backend="llama.cpp")


def test_a_term_over_the_base_models_own_file_is_the_base_model(folder: Path) -> None:
    path = str(folder / "q8_0.gguf")
    with Engine.load(path, backend="llama.cpp", tokenizer=POCKET) as engine:
        engine.next_logprobs("Hi", "M + 0.5*x", {"x": Prompted("Be kind.", model=path)})
        assert len(engine._registry.scorers()) == 1


def test_what_it_cannot_do_is_one_sentence(folder: Path, tmp_path: Path, exact: Engine) -> None:
    path = folder / "f32.gguf"
    for options, problem in [
        ({"dtype": "bfloat16"}, "computes in the numbers of the file"),
        ({"quantize": "int8"}, "computes in the numbers of the file"),
        ({"max_lanes": 1000}, "at most 256 texts at once, and max_lanes is 1000"),
        ({"backend": "vllm"}, "backend is 'llama.cpp', or None for transformers, not 'vllm'"),
        ({"context_length": 5000}, "holds 1024 tokens, not 5000"),
        ({"device": "gpu"}, "device is a device of torch, .* write 'cuda'"),
    ]:
        with pytest.raises(ModelError, match=problem):
            Engine.load(path, **({"backend": "llama.cpp"} | options))
    with pytest.raises(ModelError, match="reads GGUF files, and 'pocket' is none"):
        Engine.load("pocket", backend="llama.cpp")
    with pytest.raises(ModelError, match="gives no log-probabilities of inner layers"):
        exact.next_logprobs("Hi", "a", {"a": Prompted(exit_layer=2)})
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(path.read_bytes()[:150_000])
    with pytest.raises(ModelError, match="is no whole GGUF file"):
        Engine.load(junk, backend="llama.cpp")


def test_requests_that_are_cancelled_leave_nothing(exact: Engine) -> None:
    tickets = [
        exact.submit(Request(chat(f"{i}"), FORMULA, TERMS, stop=Stop(200))) for i in range(40)
    ]
    for ticket in tickets[::2]:
        ticket.cancel()
    texts = [ticket.result() for ticket in tickets[1::2]]
    assert all(text.tokens for text in texts)
    assert exact.status().lanes == 0
