"""Describe the form of an answer: grammars, JSON schemas, tools.

- `grammar`: the texts that an answer may be, as plain data.
- `json_schema`: rewrites JSON schemas so that llguidance enforces them.
- `finite_schemas`: finds definitions that no finite text matches.
- `schema_formats`: writes text formats as patterns, and pydantic classes as schemas.
- `tools`: the tools that an answer may call.
"""
