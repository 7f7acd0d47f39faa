"""`python -m marith`: the command line."""

from __future__ import annotations

from marith.cli import app

if __name__ == "__main__":
    app(prog_name="python -m marith")
