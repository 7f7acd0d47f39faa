"""What may an answer be, and how is it read back?

- `answer_grammar`: the grammar of a whole answer: reasoning, text, calls of tools.
- `backtracking`: which tokens a ban takes back, and which text can be emitted.
- `detectors`: finds stop strings and banned words in a text as it arrives.
- `logprobs`: the log-probabilities of a text's tokens, of the whole formula and of each term.
- `output`: final tokens → text, reasoning and calls → chunks → the completion.
- `output_parser`: splits an answer, as its text arrives, into reasoning, text and calls of tools.
"""
