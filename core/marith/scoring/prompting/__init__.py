"""How do messages become tokens, and tokens text?

- `rendering`: renders chat templates in transformers' sandbox.
- `shared_tokens`: compares a vocabulary with the base model's.
- `templates`: messages to tokens, with the system prompt of a term.
- `text_parts`: the part of an answer at each position: its reasoning, its text, or its calls.
- `tokenizer`: text to tokens, and tokens to text as they arrive.
- `tool_format`: reads from a chat template how it writes tools, calls and reasoning.
"""
