"""Use a formula in a LlamaIndex application, as its language model `Marith`."""

import marith

try:
    from llamaindex_marith.llm import Marith
    from llamaindex_marith.react import react_grammar
    from llamaindex_marith.retrieved_text import context_of
except ModuleNotFoundError as error:
    raise marith.errors.missing_extra(error, "llama_index", __name__, "llamaindex") from None

__all__ = ["Marith", "context_of", "react_grammar"]
