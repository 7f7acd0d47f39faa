"""The jobs that the engine runs.

- `allowed_tokens`: applies the grammar and the ban of a text.
- `costs`: the cost of a generated text.
- `generation`: a text that is generated: its tokens, constraints and chunks.
- `job`: the protocol of jobs.
- `plausibility`: how plausible a generated text is to the terms of its formula.
- `queries`: scoring and next-token queries of a given text.
"""
