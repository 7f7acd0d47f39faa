"""Use a formula in a LangChain application: `ChatMarith` for chats, `MarithLLM` for text."""

import marith

try:
    from langchain_marith.chat import ChatMarith
    from langchain_marith.text_model import MarithLLM
except ModuleNotFoundError as error:
    raise marith.errors.missing_extra(error, "langchain_core", __name__, "langchain") from None

__all__ = ["ChatMarith", "MarithLLM"]
