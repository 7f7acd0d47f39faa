"""Measure the quality and the speed of formulas. Evaluations run on Inspect AI.

"The paper" is "Controlled Text Generation via Language Model Arithmetic" (Dekoninck et al., 2024).

- `attributes`: the paper's six curves: an attribute of texts as a function of its factor.
- `evaluations`: the evaluations of `marith eval`: several formulas on one engine.
- `formulas`: named formulas, from persona files or from text.
- `inspect_registry`: the entry point that registers marith with Inspect AI.
- `provider`: marith as a model provider of Inspect AI.
- `results`: the results of an evaluation as a table, as CSV files and as a plot.
- `scorers`: scorers of Inspect AI: classifiers, perplexity, VADER, word length, own functions.
- `statistics`: means with confidence intervals, and paired differences between formulas.
- `suite`: several formulas in one evaluation: an eval set of Inspect AI, on one engine.
- `system_prompts`: the system prompts of the paper, and the terms of its formulas.
- `tasks`: the paper's evaluations as tasks of Inspect AI, such as `inspect eval marith/toxicity`.
- `harness/`: marith as a model of lm-evaluation-harness.
- `pocket_texts/`: texts from pocket's grammar, for evaluations without a data set.
- `speed/`: the savings of speculation: the paper's table and figure.
- `tuning/`: a search for the numbers of a formula that reach a target.
"""
