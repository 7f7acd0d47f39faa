"""The conformance suite for LlamaIndex's LLMs, on the draft of pocket: real weights, no network."""

from __future__ import annotations

from conformance_pocket import Pocket


class TestMarith(Pocket):
    """All checks; none is left out."""
