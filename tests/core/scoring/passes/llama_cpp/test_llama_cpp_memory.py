"""What llama.cpp keeps of texts, what it frees, and what it refuses."""

from __future__ import annotations

import gc
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.ggml_files import POCKET, apart, chat, write_adapter
from support.gguf_families import family_model, write_family
from support.held_passes import scorer_of
from support.pauses import Pause, pausing

from marith import Engine, ModelError, Prompted, Request, Sampling, Stop
from marith.scoring.lane_text import LaneText

pytest.importorskip("llama_cpp", reason="llama-cpp-python is absent: `make llamacpp` builds it")

from marith.scoring.passes.lanes import Lane
from marith.scoring.passes.llama_cpp.sequence_lanes import SequenceBytes, SequenceLanes
from marith.scoring.weights.llama_cpp.ggml import FEWEST


def test_texts_of_windowed_models_are_read_again_if_their_keys_are_gone(
    tmp_path: Path, tokenizer: Any
) -> None:
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


def test_a_text_without_a_place_is_refused_if_it_cannot_be_truncated() -> None:
    context: Any = SimpleNamespace(
        cells=256, sequences=1, cut=lambda *_: False, drop=lambda *_: None
    )
    lanes = SequenceLanes(context, 2**20, SequenceBytes(1, 1))
    says = "no room for 9 more tokens in 256 places, and .*; set a smaller max_lanes"
    with pytest.raises(ModelError, match=says):
        lanes.make_places([Lane(row=0)], 9)


def test_long_rotary_factors_do_not_depend_on_other_texts(tmp_path: Path, tokenizer: Any) -> None:
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
        pytest.warns(UserWarning, match="rotary factors for long texts"),
        Engine.load(path, backend="llama.cpp") as one,
    ):
        text = "the sea is wide and blue and " * 14
        first = one.next_logprobs(text)
        for i in range(40):
            one.next_logprobs(f"{i} dogs 150 are kind and they like the sea")
        assert apart(one.next_logprobs(text), first) <= 0.01


def test_adapters_that_nobody_uses_are_freed(exact: Engine, tmp_path: Path) -> None:
    from marith.scoring.weights.llama_cpp import ggml

    runner = scorer_of(exact).runner
    adapter = runner.passes.read_adapter(write_adapter("pocket-polite", tmp_path / "polite.gguf"))
    [lora] = adapter.held
    held = weakref.ref(lora)
    assert isinstance(lora, ggml.GGMLAdapter)
    runner._of(adapter)
    del adapter, lora
    gc.collect()
    assert held() is None
    assert not runner._adapted


def test_the_memory_of_a_long_text_can_be_given_back(exact: Engine) -> None:
    exact.next_logprobs(chat("The sea is wide and blue. " * 60))
    runner = scorer_of(exact).runner
    lanes, context = runner._bare.lanes, runner._bare.lanes.context
    assert context.cells > 2 * FEWEST
    for _ in range(100):  # until the engine's thread has let the lane go
        lanes.drop_idle(10**9)
        if context.cells == FEWEST:
            return
        time.sleep(0.05)
    pytest.fail(f"{context.cells} places stay")


def test_texts_are_as_long_after_pauses_that_free_their_cells(folder: Path) -> None:
    requests = [
        Request(chat(prompt), "M - 0.4*rude", {"rude": "You are rude."}, Sampling(seed=1),
                Stop(90, min_tokens=90))
        for prompt in ("Who are you?", "Tell me of 12 dogs.", "Hi")
    ]  # fmt: skip
    with Engine.load(folder / "f32.gguf", backend="llama.cpp") as engine:
        cache_bytes = scorer_of(engine).memory([LaneText.of(None, (), 500)])
    with Engine.load(folder / "f32.gguf", backend="llama.cpp", cache_bytes=cache_bytes) as engine:
        with pausing(engine, [Pause(frozenset({0, 2}), drops=True)] * 8):
            tickets = [engine.submit(each) for each in requests]
            ended = [ticket.result(60) for ticket in tickets]
        assert [len(one.tokens) for one in ended] == [90] * 3
        assert engine.status().paused >= 8


def test_a_term_over_the_base_models_own_file_is_the_base_model(folder: Path) -> None:
    path = str(folder / "q8_0.gguf")
    with Engine.load(path, backend="llama.cpp", tokenizer=POCKET) as engine:
        engine.next_logprobs("Hi", "M + 0.5*x", {"x": Prompted("Be kind.", model=path)})
        assert len(engine.status().checkpoints) == 1


def test_an_unsupported_request_is_refused_in_one_sentence(
    folder: Path, tmp_path: Path, exact: Engine
) -> None:
    path = folder / "f32.gguf"
    for options, problem in [
        ({"dtype": "bfloat16"}, "computes in the number types of the file"),
        ({"max_lanes": 1000}, "at most 256 texts at once, and max_lanes is 1000"),
        ({"backend": "vllm"}, "backend must be 'transformers' or 'llama.cpp', not 'vllm'"),
        ({"context_length": 5000}, "holds 1024 tokens, not 5000"),
        ({"device": "gpu"}, "device must be a device of torch, .* not 'gpu'"),
    ]:
        with pytest.raises(ModelError, match=problem):
            Engine.load(path, **({"backend": "llama.cpp"} | options))
    with pytest.raises(ModelError, match="needs a GGUF file, not 'pocket'"):
        Engine.load("pocket", backend="llama.cpp")
    with pytest.raises(ModelError, match="gives no log-probabilities of inner layers"):
        exact.next_logprobs("Hi", "a", {"a": Prompted(exit_layer=2)})
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(path.read_bytes()[:150_000])
    with pytest.raises(ModelError, match="is not a complete GGUF file"):
        Engine.load(junk, backend="llama.cpp")
