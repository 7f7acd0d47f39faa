"""Terms as scorers: spans to log-probabilities.

- `classifier_scorer`: scores classifiers and judgements (FUDGE).
- `ngram`: smoothed n-grams, of fixed texts and of the text so far.
- `prefix_tree`: runs a classifier over the tree of texts with one more candidate token.
- `prompted_scorer`: scores language models: one pass for one set of weights.
- `text_likelihood`: the likelihood of the text so far.
- `trivial`: the uniform distribution and positions.
- `whole_texts`: runs classifiers that read whole texts.
"""
