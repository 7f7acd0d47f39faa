"""Schedule requests over the models, on a thread of the engine.

- `admission`: which jobs run, wait or are paused, by lanes and memory.
- `calibrate`: measures which plan costs least.
- `call`: the arguments of one call of an engine, and the requests that they describe.
- `engine`: `Engine`: loading, submitting, scoring, closing.
- `entrypoints`: `generate`, `stream`, `agenerate`, `astream` and `rank`: the calls of an engine.
- `loop`: the thread that owns the models. Jobs join and leave between two steps.
- `plain_texts`: draws the next token of texts without drafts and constraints, for all together.
- `prepare`: binds the formula of a request, loads its models, and reads its prompt.
- `step`: one round for all jobs: evaluate, compose, verify and accept.
- `ticket`: what a caller holds while a request runs: its chunks, and the completion at the end.
- `token_budget`: the number of tokens that a text may have.
- `tokens`: conversion between texts and tokens of the base model, without a pass.
- `turn`: a job's part in a step.
- `verified_texts`: composes and verifies the positions of all other texts.
- `jobs/`: requests while they run: texts that are generated, and queries.
- `threads/`: threads, deadlines and futures of an engine.
"""
