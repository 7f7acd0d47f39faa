"""Measure how well a formula does, and how fast. Evaluations run on Inspect AI.

- `attributes`: the six curves of the paper, attributes by their factors.
- `evaluations`: `marith eval`: several formulas on one engine.
- `formulas`: named formulas, from a file, from personas, or as they are written.
- `inspect_registry`: register marith with Inspect AI, by the entry point `inspect_ai`.
- `provider`: marith as a model provider of Inspect AI.
- `results`: show the results of an evaluation: a table of formulas, their texts, and a plot.
- `scorers`: scorers of Inspect AI for texts: classifiers, perplexity, VADER, word length.
- `statistics`: means with their intervals, and paired differences between formulas.
- `suite`: several formulas in one evaluation: an eval set of Inspect AI, on one engine.
- `system_prompts`: the system prompts of the paper, and the terms of its formulas.
- `tasks`: the paper's evaluations as tasks of Inspect AI: `inspect eval marith/toxicity`.
- `harness/`: `marith` as a model of lm-evaluation-harness.
- `pocket_texts/`: texts of pocket's grammar, for evaluations without data, made by tools/pocket.
- `speed/`: the savings of speculation: the paper's table and figure.
- `tuning/`: a search for the numbers of a formula that reach a target.
"""
