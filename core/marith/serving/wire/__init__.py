"""OpenAI's objects: what clients send, and what they get."""
