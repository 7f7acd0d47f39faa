"""The engine over HTTP, in OpenAI's words: `marith serve`.

- `app`: the application: its routes, how it begins, and how it ends.
- `event_stream`: streams of server-sent events: pings, readers that leave.
- `guard`: who may ask: keys, hosts, origins.
- `openapi`: the OpenAPI document: every route, and the body that it takes.
- `process`: one process that serves: it listens, loads, and ends in order.
- `served_models`: models by name: each formula of the persona file.
- `server`: what all routes of a server share: its models, its threads, its counts.
- `server_metrics`: what Prometheus reads: vLLM's meanings.
- `server_settings`: what whoever starts a server decides.
- `until_gone`: requests that run: begun off the event loop, awaited until the client leaves.
- `routes/`: what each path answers.
- `wire/`: OpenAI's objects: what clients send, and what they get.
"""
