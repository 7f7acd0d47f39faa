"""How well does a formula do, and how fast? Evaluations run on Inspect AI.

- `attributes`: how attributes follow their factors: the six curves of the paper.
- `evaluations`: `marith eval`: several formulas on one engine.
- `formulas`: which formulas, by name: from a file, from one of personas, or as they are written.
- `inspect_registry`: register marith with Inspect AI, by the entry point `inspect_ai`.
- `provider`: marith as a model provider of Inspect AI.
- `results`: show the results of an evaluation: a table of formulas, their texts, and a plot.
- `scorers`: scorers of Inspect AI for texts: classifiers, perplexity, VADER, word length.
- `statistics`: means with their intervals, and paired differences between formulas.
- `suite`: several formulas in one evaluation: an eval set of Inspect AI, on one engine.
- `system_prompts`: the system prompts of the paper, and the sentences that announce a tone.
- `tasks`: the paper's evaluations as tasks of Inspect AI: `inspect eval marith/toxicity`.
- `harness/`: how does a formula do in lm-evaluation-harness? `marith` as one of its models.
- `pocket_texts/`: texts of pocket's grammar, for evaluations without data: written by tools/pocket,
  read here.
- `speed/`: how much does speculation save? The paper's table and figure, and what "auto" makes of
  it.
- `tuning/`: which strengths reach a target? A search over the unknown numbers of a formula.
"""
