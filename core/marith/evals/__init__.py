"""How well does a formula do, and how fast? Evaluations run on Inspect AI."""
