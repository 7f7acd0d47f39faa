"""The demonstration on pocket: what its one screen shows, and where it prints."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO

import pytest

from marith.demo import (
    ABOUT_A_PASSAGE,
    DETOXIFIED,
    FAITHFUL,
    LANGCHAIN,
    LLAMAINDEX,
    MESSAGE,
    PASSAGES,
    PERSONA,
    QUESTION,
    TEMPLATE,
    answer_function,
    answers_from_a_passage,
    options_for,
    replies_to,
    run,
)
from marith.scoring.weights.locate import locate

OPTIONS = options_for("pocket", 0)


def printed(text: str, label: str) -> str:
    """What stands beside a label, in one line."""
    found = re.search(rf"^  {re.escape(label)} +(.*(?:\n {{20,}}.*)*)", text, re.MULTILINE)
    assert found, f"{label!r} is not there"
    return " ".join(found[1].split())


def falls(text: str, label: str) -> tuple[float, float]:
    before, after = re.findall(r"\d\.\d\d", printed(text, label))[:2]
    return float(before), float(after)


@pytest.fixture(scope="module")
def screen() -> str:
    """What one run prints."""
    out = StringIO()
    with redirect_stdout(out):
        run("pocket", QUESTION, seed=0)
    return out.getvalue()


def test_toxicity_falls_by_half_or_more(screen: str) -> None:
    for label in ("toxicity by classifier", "mean over 16 messages"):
        before, after = falls(screen, label)
        assert before > 0.3
        assert after <= before / 2


def test_both_replies_are_about_the_message(screen: str) -> None:
    for label in ("M", DETOXIFIED):
        assert "bakers" in printed(screen, label)


def test_the_passage_wins_over_what_the_model_has_learnt(screen: str) -> None:
    assert "Tokyo" in printed(screen, "faithful=0")
    assert "Umeå" in printed(screen, f"faithful={FAITHFUL}")


def test_the_persona_is_shown_at_two_strengths(screen: str) -> None:
    texts = {printed(screen, formula) for formula in PERSONA[1:]}
    assert len(texts) == 2
    assert all("snakes" in text for text in texts)


def test_another_model_shows_a_persona_and_a_passage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = locate("pocket")  # by its path, as any other model
    run(model)
    out = capsys.readouterr().out
    assert QUESTION in out
    bare, *_, strongest = (printed(out, formula) for formula in PERSONA)
    assert strongest != bare
    assert "Tokyo" in printed(out, "faithful=0")
    assert printed(out, f"faithful={FAITHFUL}")
    assert "toxicity" not in out


def test_langchain_gives_the_text_of_the_engine(screen: str) -> None:
    request = replies_to(MESSAGE, OPTIONS)[1]
    answer = answer_function(LANGCHAIN)
    assert not isinstance(answer, str)
    assert answer(request.options, request.prompt) == request.submit().result().text
    assert "the text of part 1" in printed(screen, LANGCHAIN)


def test_llamaindex_gives_the_text_of_the_engine(screen: str) -> None:
    request = answers_from_a_passage(OPTIONS)[1]
    answer = answer_function(LLAMAINDEX)
    assert not isinstance(answer, str)
    theirs = answer(request.options, ABOUT_A_PASSAGE, PASSAGES, TEMPLATE)
    assert theirs == request.submit().result().text
    assert "the text of part 3" in printed(screen, LLAMAINDEX)
