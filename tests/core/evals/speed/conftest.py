"""What is loaded stays, so that no variant waits while it is searched for garbage."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Objects that are there before the first test of a file are not searched again."""
    from marith import Engine  # torch, after all tests are collected

    with Engine.load("pocket"):
        gc.collect()
        gc.freeze()
