"""What does a GGUF file hold, and how does it become a model of transformers?"""
