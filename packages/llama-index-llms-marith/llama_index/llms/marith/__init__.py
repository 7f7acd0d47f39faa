"""Offer `Marith` under the import path that LlamaIndex gives to language models."""

from llamaindex_marith import Marith

__all__ = ["Marith"]
