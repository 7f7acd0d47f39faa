"""Schedule requests over the models, on a thread of the engine.

- `calibrate`: measure which plan costs least.
- `call`: the arguments of one call of an engine, and the requests that they describe.
- `engine`: `Engine`: loading, submitting, scoring, closing.
- `entrypoints`: `generate`, `stream`, `agenerate`, `astream` and `rank`: the calls of an engine.
- `job_queue`: which jobs run and which wait: admission by lanes and memory.
- `loop`: the thread that owns the models: it takes steps, and jobs join and leave between them.
- `prepare`: from a request to a prepared one: bind the formula, load models, read the prompt.
- `step`: one step: evaluate, compose, verify and accept for all jobs.
- `ticket`: what a caller holds while a request runs: its chunks, and the completion at the end.
- `token_budget`: the number of tokens that a text may have.
- `tokens`: conversion between texts and tokens of the base model, without a pass.
- `jobs/`: what the engine runs.
- `threads/`: threads, deadlines and futures of an engine.
"""
