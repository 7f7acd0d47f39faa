"""An option of a request is declared in two places and used in one; none between names it."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from marith import Request
from marith.request.request import RequestOptions

ROOT = Path(__file__).resolve().parents[3]
BETWEEN = (
    "core/marith/engine/entrypoints.py",
    "core/marith/engine/threads/retry.py",
    "core/marith/options/options.py",
    "langchain_marith/invocation.py",
    "llamaindex_marith/chat_call.py",
)
GIVEN_BY_PLACE = ["prompt", "formula", "terms", "sampling", "stop", "speculation"]


def test_the_typed_options_are_the_fields_of_a_request() -> None:
    names = [field.name for field in fields(Request)]
    assert names == [*GIVEN_BY_PLACE, *RequestOptions.__annotations__]


@pytest.mark.parametrize("path", BETWEEN)
def test_what_lies_between_names_no_option(path: str) -> None:
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.arg | ast.keyword):
            assert node.arg not in RequestOptions.__annotations__, node.lineno
