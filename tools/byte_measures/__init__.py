"""Measures of engines over bytes: bits a byte of texts, and how near the covers are.

- `texts`: texts of several kinds, which models are unlikely to know by heart.
- `bits`: bits a byte of texts, under models alone and composed.
- `covers`: the distance between the distribution from covers and that from all tokenisations.
- `cost`: milliseconds and passes a byte, beside ordinary composition.
"""
