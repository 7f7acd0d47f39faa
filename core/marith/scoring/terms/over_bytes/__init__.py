"""How likely is each byte, to a language model of any vocabulary?

- `byte_scorer`: scores language models over bytes.
- `byte_vocabulary`: the vocabulary of bytes, with the base model's chat template.
- `canonical_tokens`: compares tokens with those that a tokenizer writes.
- `covers`: the distribution of the next byte of a text, from the covers of its bytes.
- `firm_prompt`: how much of a prompt is read as tokens.
- `sorted_tokens`: the tokens of a model in the order of their bytes.
"""
