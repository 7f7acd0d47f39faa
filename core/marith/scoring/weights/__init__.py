"""How do files become a loaded model?

- `gguf/`: reads GGUF files for models of transformers.
- `layout/`: how weights lie in memory, and what computes with them.
- `llama_cpp/`: loads GGUF files with llama.cpp.
- `checkpoint`: a loaded model with its vocabulary and the number of its threads.
- `control_vectors`: reads and writes control vectors, and says which layers they name.
- `footprint`: estimates the memory of a model from its files.
- `kinds`: checks if a checkpoint is a causal language model or a classifier.
- `loader`: loads each checkpoint once per process.
- `locate`: finds files by name, on disk and on the hub.
- `lora_files`: reads LoRA adapters from files.
- `placing`: chooses the device and the number type of a checkpoint.
- `quantised_files`: recognises checkpoints with quantised weights.
- `reading`: reads a checkpoint with transformers.
- `shared_weights`: copies a model without copying its weights.
- `sizes`: refuses a checkpoint that does not fit, before it is read.
"""
