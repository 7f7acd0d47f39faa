"""`python -m marith`: the command line."""

from __future__ import annotations

from marith.cli.__main__ import main

if __name__ == "__main__":
    main("python -m marith")
