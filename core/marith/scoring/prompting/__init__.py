"""Messages to tokens, and tokens to text.

- `rendering`: chat templates in transformers' sandbox.
- `templates`: messages to tokens, with the system prompt of a term.
- `tokenizer`: text to tokens, and tokens to text as they arrive.
- `tool_format`: how a chat template writes tools, calls and reasoning.
"""
