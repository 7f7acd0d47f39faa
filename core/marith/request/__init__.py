"""What is asked, and what comes back? Plain data, without torch.

- `ban`: texts that must not appear in an answer.
- `checks`: checks of values, each written once.
- `completion`: chunks, completions and their costs.
- `limits`: the limits of an engine, and its status.
- `plan`: plans of speculation: which terms draft, and which verify later.
- `prompt`: messages of any provider as messages with text.
- `request`: `Request`: a prompt, the formula that answers it, and its options.
- `sampling`: how tokens are drawn.
- `stop`: where a text ends: its length, and strings that stop it.
- `visible_text`: text of a model or a stranger, with what a terminal or a page obeys made visible.
- `forms/`: what form an answer has: grammars, JSON schemas, tools.
"""
