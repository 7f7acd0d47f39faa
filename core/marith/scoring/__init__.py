"""How likely is each token, to one term?

- `memory`: bytes that are free, held, and needed by requests.
- `notices`: warnings that point at the caller's line, from whatever depth and thread they come.
- `registry`: which scorer evaluates which term.
- `scorer`: the protocol between the engine and scorers: spans in, rows out.
- `passes/`: one model's forward passes, and what they keep.
- `prompting/`: messages to tokens, and tokens to text.
- `terms/`: terms as scorers: spans to log-probabilities.
- `weights/`: files to a loaded model.
"""
