"""Does a package's LLM keep LlamaIndex's contract? Subclass `LLMConformance`, and pytest says.

    from conformance import LLMConformance

    class TestMine(LLMConformance):
        context_window = 8192

        def make(self, **options):
            return MyLLM(model="mine", **options)

        def options(self, *, max_tokens, temperature, **words):
            return {"max_new_tokens": max_tokens, "temperature": temperature, **words}

It needs pytest, pytest-asyncio and llama-index-core alone. What else may differ between packages,
and what may be left out, is said in `conformance.subject`.
"""

import pkgutil

import pytest

rooms = [f"{__name__}.{room.name}" for room in pkgutil.iter_modules(__path__)]
pytest.register_assert_rewrite(*rooms)

from conformance.suite import LLMConformance  # noqa: E402 (its asserts say what was compared)

__all__ = ["LLMConformance"]
