"""The jobs that the engine runs.

- `costs`: the cost of a generated text, and its plausibility.
- `generation`: a text that is generated: its tokens, constraints and chunks.
- `job`: the protocol of jobs, and who drafts for them.
- `queries`: scoring and next-token queries of a given text.
"""
