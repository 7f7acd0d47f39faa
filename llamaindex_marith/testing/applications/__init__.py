"""What LlamaIndex builds on an LLM: tools, objects, engines, agents."""
