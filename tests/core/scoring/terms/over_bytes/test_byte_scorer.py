"""Scorers over bytes: usage in bytes, and memory that is freed at once."""

import gc
from weakref import ref

from support.held_passes import scorer_of

from marith import Engine, Prompted, rendered_prompts
from marith.scoring.terms.over_bytes.byte_scorer import ByteScorer


def test_usage_counts_the_bytes_of_the_prompt_that_were_cached() -> None:
    with Engine.load("pocket", over="bytes") as engine:
        first = engine.generate("What is a cat?", max_tokens=3, temperature=0).usage
        assert (first.cached_tokens, first.completion_tokens) == (0, 3)
        again = engine.generate("What is a cat?", max_tokens=3, temperature=0).usage
        # The last token is read again, because only a pass gives the probabilities after it.
        assert again.prompt_tokens == first.prompt_tokens
        assert again.cached_tokens == first.prompt_tokens - len("<|assistant|>")


def test_a_scorer_that_nobody_uses_is_freed_without_the_garbage_collector() -> None:
    with Engine.load("pocket", over="bytes") as engine:
        own = scorer_of(engine)
        scorer = ByteScorer(own.checkpoint, own.runner)
        tokens = tuple(own.vocabulary.encode("What is a cat?"))
        lane = scorer.open([], tokens, None, None)
        assert scorer.tokens_left(tokens) > 0
        gc.disable()
        try:
            left = ref(scorer)
            del scorer, lane
            assert left() is None
        finally:
            gc.enable()


def test_rendered_prompts_are_the_texts_that_each_model_reads() -> None:
    terms = {"plain": Prompted(template="plain"), "sad": Prompted("Be sad.", model="pocket-draft")}
    asked = "What is a cat that sle", "M + plain + sad", terms
    with Engine.load("pocket") as engine, Engine.load("pocket", over="bytes") as over_bytes:
        rendered = rendered_prompts(over_bytes, *asked)
        assert rendered == rendered_prompts(engine, *asked)
        assert rendered["M"].startswith("<|user|>What is a cat that sle")
