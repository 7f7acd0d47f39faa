"""How does a LlamaIndex application use a formula? As `Marith`, its language model."""

from llamaindex_marith.llm import Marith
from llamaindex_marith.react import react_grammar
from llamaindex_marith.retrieved_text import context_of

__all__ = ["Marith", "context_of", "react_grammar"]
