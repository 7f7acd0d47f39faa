"""Constrain answers, and convert their tokens to text, reasoning and calls.

- `answer_grammar`: the grammar of a whole answer: reasoning, text, calls of tools.
- `backtracking`: the tokens that a ban rolls back, and the text that can be emitted.
- `detectors`: finds end tokens, stop strings and banned words.
- `logprobs`: the log-probabilities of a text's tokens under the formula and each term.
- `output`: converts final tokens to chunks and the completion.
- `output_parser`: splits an answer, as its text arrives, into reasoning, text and calls of tools.
- `reasoning_limit`: writes the mark that ends reasoning after a number of tokens.
"""
