"""Keys and values as one rectangle with a row for each lane (GPU, and other caches).

- `cuda_graphs`: captures decode steps as CUDA graphs.
- `rectangle_cache`: the keys and values of all rows.
- `rectangle_lanes`: lanes as rows, which are moved and dropped.
"""
