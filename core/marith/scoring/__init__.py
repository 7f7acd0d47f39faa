"""How likely is each token, to one term?

- `cache_limit`: one limit on the memory of all caches.
- `choose_runner`: which runner a model gets.
- `cpu_threads`: the number of OpenMP threads with which a thread computes.
- `free_memory`: the bytes that this process may still take.
- `lane_text`: the texts that lanes will hold, and their bytes.
- `model_warnings`: warnings about a base model, most of them once.
- `notices`: warnings that point at the caller's line, from any depth and any thread.
- `registry`: the scorer of each term.
- `scorer`: the protocol between the engine and scorers: spans in, rows out.
- `term_lanes`: the scorer, the reading and the lane of each term of one request.
- `passes/`: the forward passes of one model, and its cache.
- `prompting/`: messages to tokens, and tokens to text.
- `terms/`: terms as scorers: spans to log-probabilities.
- `weights/`: files to a loaded model.
"""
