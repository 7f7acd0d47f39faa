"""Does a package's LLM keep LlamaIndex's contract? Subclass `LLMConformance`, and run pytest.

    from llamaindex_marith.testing import LLMConformance

    class TestMyLLM(LLMConformance):
        context_window = 8192

        def make(self, **options):
            return MyLLM(model="mine", **options)

        def options(self, max_tokens=None, **parameters):
            length = {} if max_tokens is None else {"max_new_tokens": max_tokens}
            return {**length, **parameters}

`pip install 'marith[conformance]'` installs what it needs: pytest and pytest-asyncio, beside the
adapter. `llamaindex_marith.testing.llm_under_test` lists what else a package may override, and
which checks it may leave out. The adapter itself does not import this package.
"""

import pkgutil

import pytest

# Before any import from here, so that a failed assert shows what it compared.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
)

from llamaindex_marith.testing.suite import LLMConformance  # noqa: E402

__all__ = ["LLMConformance"]
