"""The form of an answer: grammars, JSON schemas, and calls of tools."""
