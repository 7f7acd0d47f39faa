"""OpenAI's objects: what clients send, and what they get.

- `choice_events`: the choices of a chat or a text → the events of a stream.
- `refusals`: errors as answers: OpenAI's error object, its status.
- `wire_answers`: completions and chunks → the objects that OpenAI's clients read.
- `wire_fields`: what clients send: bodies of OpenAI's fields, of those of other servers.
- `wire_requests`: what a client sends → requests of the engine.
"""
