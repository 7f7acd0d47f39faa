"""Describe a request and its answer. Plain data, without torch.

- `ban`: texts that must not appear in an answer.
- `checks`: checks of the values of fields, each written once.
- `completion`: chunks, completions and their costs.
- `limits`: the limits of an engine, and its status.
- `message_content`: converts messages of any provider to OpenAI's format, with text alone.
- `other_names`: what to write instead of the names that other libraries give to options.
- `placement_names`: checks the names of devices, number types and backends, without torch.
- `plan`: plans of speculation: which terms draft, and which verify later.
- `prompt`: converts a prompt to messages with text, and pairs tools' results with their calls.
- `request`: `Request`: a prompt, the formula that answers it, and its options.
- `sampling`: how tokens are sampled.
- `stop`: where a text ends: its length, and strings that stop it.
- `visible_text`: replaces control characters in untrusted text with visible ones.
- `forms/`: the form of an answer: grammars, JSON schemas, tools.
"""
