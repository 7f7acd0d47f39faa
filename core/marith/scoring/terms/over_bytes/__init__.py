"""Language models of any vocabularies over one: 256 bytes and an end.

- `byte_scorer`: scores language models over bytes.
- `byte_vocabulary`: the vocabulary of bytes, with the base model's chat template.
- `canonical`: the tokens that a tokenizer writes, and how much of a prompt is firm.
- `covers`: the distribution of the next byte of a text, from the covers of its bytes.
- `sorted_tokens`: the tokens of a model in the order of their bytes.
"""
