"""How does llama.cpp read a GGUF file for the engine?"""
