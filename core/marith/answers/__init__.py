"""Constrain answers, and convert their tokens to text, reasoning and calls.

- `answer_grammar`: the grammar of a whole answer: reasoning, text, calls of tools.
- `backtracking`: the tokens that a ban takes back, and the text that can be emitted.
- `detectors`: tells which tokens end a text, and finds stop strings and banned words in it.
- `logprobs`: the log-probabilities of a text's tokens, of the formula and of each term.
- `output`: converts final tokens to chunks and the completion.
- `output_parser`: splits an answer, as its text arrives, into reasoning, text and calls of tools.
"""
