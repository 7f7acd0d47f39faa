"""Time formulas beside transformers and llama.cpp, in one process and on the same weights."""
