"""Terms as scorers: spans to log-probabilities.

- `classifier_scorer`: classifiers as scorers (FUDGE).
- `ngram`: smoothed n-grams, fixed and of the text so far.
- `prefix_tree`: a classifier over the tree of texts with one candidate more.
- `prompted_scorer`: language models as scorers: one pass for one set of weights.
- `runner`: which runner a model gets.
- `text_likelihood`: the likelihood of the text so far.
- `trivial`: the uniform distribution and positions.
- `whole_texts`: classifiers that read whole texts.
"""
