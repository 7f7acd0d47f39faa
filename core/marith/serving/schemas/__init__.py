"""The shapes of what clients send and get, as an OpenAPI document."""
