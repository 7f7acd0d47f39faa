"""How does a LlamaIndex application use a formula? As `Marith`, its language model."""

from llamaindex_marith.lens import context_of
from llamaindex_marith.llm import Marith
from llamaindex_marith.react import react_grammar

__all__ = ["Marith", "context_of", "react_grammar"]
