"""How does a LlamaIndex application speak a formula? As `Marith`, its language model."""

from llamaindex_marith.llm import Marith

__all__ = ["Marith"]
