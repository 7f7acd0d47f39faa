"""Engines over bytes count the prompt in bytes, also the part of it that was cached."""

from marith import Engine


def test_usage_counts_the_bytes_of_the_prompt_that_were_cached() -> None:
    with Engine.load("pocket", over="bytes") as engine:
        first = engine.generate("What is a cat?", max_tokens=3, temperature=0).usage
        assert (first.cached_tokens, first.completion_tokens) == (0, 3)
        again = engine.generate("What is a cat?", max_tokens=3, temperature=0).usage
        # The last token is read again, because only a pass gives the probabilities after it.
        assert again.prompt_tokens == first.prompt_tokens
        assert again.cached_tokens == first.prompt_tokens - len("<|assistant|>")
