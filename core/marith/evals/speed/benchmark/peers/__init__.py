"""One model, as others run it: transformers' ways to generate, and llama.cpp where installed."""
