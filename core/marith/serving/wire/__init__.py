"""Converts bodies to requests, and completions to OpenAI's objects.

- `choice_events`: writes the choices of a chat or a text as events of a stream.
- `refusals`: converts errors to HTTP answers with OpenAI's error object.
- `wire_answers`: converts completions and chunks to OpenAI's objects.
- `wire_fields`: reads bodies: the fields of OpenAI, of other servers, and of marith.
- `wire_requests`: converts bodies to requests of the engine.
"""
