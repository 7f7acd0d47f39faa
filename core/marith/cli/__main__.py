"""`python -m marith.cli`."""

from marith.cli import app

app()
