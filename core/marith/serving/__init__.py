"""The HTTP server of `marith serve`, with OpenAI's API.

- `app`: the ASGI application: its routes, start and end.
- `event_stream`: streams of server-sent events, with pings and time-outs of the client.
- `guard`: checks keys, hosts and origins before a request reaches a route.
- `openapi`: the OpenAPI document of all routes and bodies.
- `process`: the process that listens, loads the models and shuts down.
- `served_models`: the models by name: one for each formula of the persona file.
- `server`: the models, threads and counts that all routes share.
- `server_metrics`: metrics for Prometheus, with the meanings of vLLM's.
- `server_settings`: the settings of a server, and the limits of every request.
- `until_gone`: runs work off the event loop, and stops waiting when the client leaves.
- `routes/`: the functions that answer each path.
- `wire/`: converts bodies to requests, and completions to OpenAI's objects.
"""
