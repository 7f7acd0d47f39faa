"""How does a LangChain application use a formula? As `ChatMarith`, or `MarithLLM` for text."""

from langchain_marith.chat import ChatMarith
from langchain_marith.text_model import MarithLLM

__all__ = ["ChatMarith", "MarithLLM"]
