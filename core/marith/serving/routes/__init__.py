"""What each path answers.

- `about_routes`: what a server says of itself: models, health, metrics, recipes.
- `inspection_routes`: `/v1/inspect` and `/v1/what_if`: why each token of a text is there.
- `text_routes`: `POST /v1/chat/completions` and `/v1/completions`: answers, whole or in events.
- `token_routes`: `/tokenize`, `/detokenize`, `/tokenizer_info` and `/v1/score`.
"""
