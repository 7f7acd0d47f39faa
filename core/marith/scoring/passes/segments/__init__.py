"""Keys and values as chains of segments, so that lanes share the prefixes of their texts (CPU).

- `kernel_shapes`: shapes of the kernel's calls, which keep a text's bits independent of others.
- `segment_attention`: attention over segments, joined by logsumexp.
- `segment_cache`: keys and values in segments, taken page by page.
- `segment_lanes`: lanes as chains of segments with shared prefixes.
"""
