"""How likely is each token, to one term?

- `memory`: bytes that are free, held, and needed by requests.
- `notices`: warnings that point at the caller's line, from any depth and any thread.
- `registry`: the scorer of each term.
- `scorer`: the protocol between the engine and scorers: spans in, rows out.
- `passes/`: the forward passes of one model, and its cache.
- `prompting/`: messages to tokens, and tokens to text.
- `terms/`: terms as scorers: spans to log-probabilities.
- `weights/`: files to a loaded model.
"""
