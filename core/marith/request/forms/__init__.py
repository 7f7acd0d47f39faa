"""What form an answer has: grammars, JSON schemas, tools.

- `grammar`: which texts are allowed, as plain data.
- `json_schema`: JSON schemas as llguidance holds them.
- `schema_formats`: formats of texts as patterns, and schemas of pydantic classes.
- `tools`: the tools that an answer may call.
"""
