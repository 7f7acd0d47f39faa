"""llama.cpp's library, and GGUF files that it loads."""
