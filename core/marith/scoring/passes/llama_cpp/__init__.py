"""Passes of llama.cpp over texts as its sequences.

- `llama_cpp_runner`: runs texts as sequences of llama.cpp.
- `sequence_lanes`: lanes as sequences of one context.
"""
