"""Files to a loaded model.

- `checkpoint`: a loaded model with its vocabulary.
- `cpu_threads`: how many OpenMP threads a model gets.
- `footprint`: what a model takes in memory, from its files.
- `ggml`: llama.cpp's library, models and contexts.
- `gguf_config`: the configuration of a GGUF file.
- `gguf_header`: metadata and tensors of a GGUF file.
- `gguf_tokenizer`: the tokenizer of a GGUF file.
- `gguf_weights`: the weights of a GGUF file, dequantised.
- `kinds`: causal language model, classifier, or neither.
- `lean_modules`: norms, attention and MLPs with fewer operations.
- `llama_cpp_loading`: GGUF files and LoRA adapters for llama.cpp.
- `loader`: checkpoints, loaded once a process.
- `locate`: names to files, on disk and on the hub.
- `lora_files`: LoRA adapters from files.
- `packing`: weights in the layout of oneDNN, for few rows.
- `placing`: device and number type of a checkpoint.
- `quantised_files`: checkpoints that are quantised already.
- `reading`: read a checkpoint with transformers.
- `rotary_frequencies`: rotary frequencies that depend on the length (longrope).
- `shared_weights`: copies of a model that share its weights.
- `sizes`: refuse what does not fit, before it is read.
"""
