"""Passes of llama.cpp, in which each text is a sequence.

- `llama_cpp_runner`: runs texts as sequences of llama.cpp.
- `sequence_lanes`: lanes as sequences of one context.
"""
