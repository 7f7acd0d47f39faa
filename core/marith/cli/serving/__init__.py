"""Commands that serve over HTTP: to clients, and to the page in a browser."""
