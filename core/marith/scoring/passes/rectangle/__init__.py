"""Keys and values as one rectangle with a row for each lane (GPU, and other caches).

- `cuda_graphs`: captures decode steps as CUDA graphs.
- `rectangle_cache`: the rectangle, and lanes as its rows.
"""
