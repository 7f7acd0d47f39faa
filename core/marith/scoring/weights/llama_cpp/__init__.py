"""How does llama.cpp load a model?

- `ggml`: llama.cpp's library, models and contexts.
- `llama_cpp_loading`: loads GGUF files, LoRA adapters and control vectors.
"""
