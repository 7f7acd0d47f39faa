"""The functions that answer each path.

- `about_routes`: models, health, metrics, recipes, explained formulas, and the page.
- `echoed_prompt`: the prompt that the choices of `/v1/completions` repeat.
- `inspection_routes`: `/v1/inspect` and `/v1/what_if`: why each token of a text is there.
- `text_routes`: `POST /v1/chat/completions` and `/v1/completions`, whole or streamed.
- `token_routes`: `/tokenize`, `/detokenize`, `/tokenizer_info` and `/v1/score`.
"""
