"""How is a GGUF file read, for a model of transformers?

- `gguf_config`: its configuration.
- `gguf_header`: its metadata and the list of its tensors.
- `gguf_tokenizer`: its tokenizer.
- `gguf_weights`: its weights, dequantised.
"""
