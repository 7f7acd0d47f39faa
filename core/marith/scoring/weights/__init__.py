"""How do files become a loaded model?

- `checkpoint`: a loaded model with its vocabulary.
- `cpu_threads`: chooses the number of OpenMP threads of a model.
- `footprint`: estimates the memory of a model from its files.
- `ggml`: llama.cpp's library, models and contexts.
- `gguf_config`: reads the configuration of a GGUF file.
- `gguf_header`: reads the metadata and the list of tensors of a GGUF file.
- `gguf_tokenizer`: builds the tokenizer of a GGUF file.
- `gguf_weights`: reads the weights of a GGUF file, dequantised.
- `kinds`: checks if a checkpoint is a causal language model or a classifier.
- `lean_modules`: norms, attention and MLPs with fewer operations.
- `llama_cpp_loading`: loads GGUF files and LoRA adapters with llama.cpp.
- `loader`: loads each checkpoint once per process.
- `locate`: finds files by name, on disk and on the hub.
- `lora_files`: reads LoRA adapters from files.
- `packing`: stores weights in oneDNN's layout, for products with few rows.
- `placing`: chooses the device and the number type of a checkpoint.
- `quantised_files`: recognises checkpoints with quantised weights.
- `reading`: reads a checkpoint with transformers.
- `rotary_frequencies`: fixes rotary frequencies that depend on the length (longrope).
- `shared_weights`: copies a model without copying its weights.
- `sizes`: refuses a checkpoint that does not fit, before it is read.
"""
