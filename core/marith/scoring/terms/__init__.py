"""Terms as scorers: spans to log-probabilities.

- `base_tokens`: answers over the base model's tokens, from a model with another vocabulary.
- `classifier_scorer`: scores classifiers and judgements (FUDGE).
- `ngram_counts`: smoothed probabilities from the counts of tokens after each context.
- `ngram_index`: the tokens that followed each context, in fixed texts and in a growing text.
- `ngram_scorer`: scores n-grams.
- `over_bytes/`: language models of any vocabularies over one, of bytes.
- `prefix_tree`: texts with common beginnings as one tree of tokens.
- `prompted_scorer`: scores language models: one pass for one set of weights.
- `text_encoder`: the tokens of texts that a classifier reads again and again.
- `text_likelihood`: the likelihood of the text so far.
- `tree_runner`: runs a classifier over prefix trees, and caches their roots.
- `text_marks`: says whether a text is inside its reasoning or a tool call.
- `trivial`: the uniform distribution and positions.
- `whole_texts`: runs classifiers that read whole texts.
"""
