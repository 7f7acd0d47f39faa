"""A salt of a model or of a call: what was read for one serves no other."""

from __future__ import annotations

import pytest

import marith
from langchain_marith import ChatMarith


@pytest.mark.parametrize("of_call", [True, False])
def test_what_was_read_for_one_salt_serves_no_other(of_call: bool) -> None:
    base = ChatMarith(engine=marith.Engine.load("pocket"), max_tokens=2, seed=1)

    def cached(salt: str | None) -> tuple[str, int]:
        given = {"cache_salt": salt}
        model = base if of_call else base.model_copy(update=given)
        answer = model.invoke("Which rivers have you seen?", **given if of_call else {})
        details = (answer.usage_metadata or {})["input_token_details"]
        return answer.text, details["cache_read"]

    answers = [cached(salt) for salt in ("a", "b", None, "a")]
    assert [count > 0 for _, count in answers] == [False, False, False, True]
    assert len({text for text, _ in answers}) == 1
    with pytest.raises(marith.RequestError, match="cache_salt is a text that is not empty"):
        base.invoke("k", cache_salt="")
    base.engine().close()
