"""The jobs that the engine runs.

- `generation`: a text that is generated: its tokens, costs and plausibility.
- `job`: the protocol of jobs, and who drafts for them.
- `queries`: scoring and next-token queries of a given text.
"""
