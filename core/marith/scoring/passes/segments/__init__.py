"""Keys and values as chains of segments, so that lanes share the prefixes of their texts (CPU).

- `segment_attention`: attention over segments, joined by logsumexp.
- `segment_cache`: keys and values in segments, taken page by page.
- `segment_lanes`: lanes as chains of segments with shared prefixes.
"""
