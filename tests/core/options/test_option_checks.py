"""Names and values as other libraries write them: aliases, paths, and None for "not given"."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.langchain_models import TERMS

from marith import Options
from marith.errors import RequestError

NOT_GIVEN: dict[str, Any] = dict.fromkeys(
    (
        "terms", "stop", "ban", "chat_template_kwargs",
        "temperature", "top_p", "min_p", "repetition_penalty",
    )
)  # fmt: skip


def test_none_is_not_given() -> None:
    assert Options(**NOT_GIVEN).values() == Options().values()
    known = Options(terms=TERMS, stop=["."], temperature=0.5, ban="x", top_p=0.5)
    assert known.overridden(NOT_GIVEN).values() == known.values()
    assert known.overridden({**NOT_GIVEN, "stop": "!"}).stop == [".", "!"]


def test_max_tokens_none_is_bounded_by_the_context_alone() -> None:
    assert Options(max_tokens=None).request("hi").stop.max_tokens is None
    assert Options(max_tokens=3).overridden({"max_tokens": None}).max_tokens is None


def test_an_option_has_the_names_that_it_has_elsewhere() -> None:
    options = Options(model_name="/nowhere", max_completion_tokens=7)
    assert (options.model, options.max_tokens) == ("/nowhere", 7)
    assert options.values() == Options(model="/nowhere", max_tokens=7).values()
    assert Options(max_tokens=7, max_completion_tokens=7).max_tokens == 7
    call = options.overridden({"model_name": "/else", "max_completion_tokens": 9})
    assert (call.model, call.max_tokens) == ("/else", 9)
    says = "max_tokens is given twice: max_tokens=3 and max_completion_tokens=5"
    with pytest.raises(ValidationError, match=says):
        Options(max_tokens=3, max_completion_tokens=5)
    with pytest.raises(RequestError, match=says):
        options.overridden({"max_tokens": 3, "max_completion_tokens": 5})


def test_an_untrusted_call_gives_a_name_no_more_than_its_option() -> None:
    with pytest.raises(RequestError, match="must not set 'model'"):
        Options(trusted=False).overridden({"model_name": "/etc"})
    assert Options(frozen=True).overridden({"max_completion_tokens": 3}).max_tokens == 3
