"""Does a package's LLM keep LlamaIndex's contract? Subclass `LLMConformance`, and run pytest.

    from llamaindex_marith.testing import LLMConformance

    class TestMyLLM(LLMConformance):
        context_window = 8192

        def make(self, **options):
            return MyLLM(model="mine", **options)

        def options(self, *, max_tokens, temperature, **words):
            return {"max_new_tokens": max_tokens, "temperature": temperature, **words}

`pip install 'marith[conformance]'` installs what it needs: pytest and pytest-asyncio, beside the
adapter. What else may differ between packages, and what may be left out, is said in
`llamaindex_marith.testing.llm_under_test`. The adapter itself does not import this package.
"""

import pkgutil

import pytest

# Before anything is imported from here: so a failed assert shows what was compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
)

from llamaindex_marith.testing.suite import LLMConformance  # noqa: E402

__all__ = ["LLMConformance"]
