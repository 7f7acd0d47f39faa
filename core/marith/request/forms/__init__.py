"""Describe the form of an answer: grammars, JSON schemas, tools.

- `grammar`: the texts that an answer may be, as plain data.
- `json_schema`: rewrites JSON schemas so that llguidance enforces them.
- `finite_schemas`: finds definitions that no finite text matches.
- `schema_formats`: formats of texts as patterns, and schemas of pydantic classes.
- `tools`: the tools that an answer may call.
"""
