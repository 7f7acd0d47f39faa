"""A prototype: the distribution of the next byte of a model of tokens, and what it is worth.

`vocabulary` has the tokens as bytes, and decides which token sequences are canonical. `covers`
computes the distribution of the next byte. `texts` has the texts of the measurement. `measure`
computes bits a byte of models alone and mixed, and `proxy_tuning` tunes a model by models with
another tokenizer. Nothing in marith uses this folder.
"""
