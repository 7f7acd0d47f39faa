"""`faithful`: retrieved text counts for more, and only if something was retrieved."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch.testing import assert_close

import marith
from marith import Options, Prompted, RequestError
from marith.decoding.cuts import keep, min_p
from marith.request.prompt import hides
from marith.scoring.prompting.templates import messages_as_read

FRAME = r"(?s)<found>.*?</found>"
SHOWN = "k <found>a b c</found> l"
HIDDEN = Prompted(hide=FRAME)
PERSONA = {"formula": "2*formal - 0.5*M", "terms": {"formal": "x y z"}}


def asked(tiny_dir: str, prompt: Any, **options: Any) -> marith.Request:
    return Options(model=tiny_dir, faithful_to=FRAME, **options).request(prompt)


def composed(tiny_dir: str, request: marith.Request) -> torch.Tensor:
    engine = marith.Engine.shared(tiny_dir)
    return engine.next_logprobs(request.prompt, request.formula, request.terms)


def test_faithful_contrasts_the_model_with_itself_without_the_passage(tiny_dir: str) -> None:
    told = composed(tiny_dir, asked(tiny_dir, SHOWN, faithful=0.5))
    engine = marith.Engine.shared(tiny_dir)
    sees, blind = (engine.next_logprobs(prompt) for prompt in (SHOWN, "k  l"))
    truth = keep(1.5 * sees - 0.5 * blind, min_p(sees, 0.1))
    assert_close(told, truth, atol=1e-4, rtol=0)
    assert not torch.allclose(told, sees, atol=1e-2)


def test_scaling_a_formula_does_not_change_its_faithful_form(tiny_dir: str) -> None:
    for formula in ("2*formal - 0.5*M", "6*formal - 1.5*M"):
        options = Options(**{**PERSONA, "formula": formula}, faithful=0.7, faithful_to=FRAME)
        known = dict(PERSONA["terms"])  # type: ignore[call-overload]
        told = marith.Engine.shared(tiny_dir).next_logprobs(SHOWN, options.faithful_formula, known)
        truth = marith.Engine.shared(tiny_dir).next_logprobs(
            SHOWN,
            "(2*formal - 0.5*M).min_p(0.1) + 1.05*(M - blind)",
            {**known, "blind": HIDDEN},
        )
        assert_close(told, truth, atol=1e-4, rtol=0)


def test_a_faithful_answer_keeps_to_plausible_tokens(
    tiny_dir: str,
) -> None:
    sees = marith.Engine.shared(tiny_dir).next_logprobs(SHOWN)
    for strength in (0.5, 2, 100):
        told = composed(tiny_dir, asked(tiny_dir, SHOWN, faithful=strength))
        assert (told > -torch.inf).equal(min_p(sees, 0.1))
    assert asked(tiny_dir, SHOWN, faithful=0).formula == marith.parse("M")


@pytest.mark.parametrize("prompt", ["k l", [{"role": "user", "content": "k"}]])
def test_if_nothing_was_retrieved_the_formula_is_unchanged(prompt: Any) -> None:
    request = asked("pocket", prompt, faithful=0.5, **PERSONA)
    assert str(request.formula) == PERSONA["formula"]
    assert str(asked("pocket", SHOWN, **PERSONA).formula) == PERSONA["formula"]


def test_the_log_says_once_that_nothing_was_found(caplog: pytest.LogCaptureFixture) -> None:
    def said(pattern: str, prompt: str) -> list[str]:
        caplog.clear()
        options = Options(model="/nowhere", faithful=0.5, faithful_to=pattern)
        for copy in (options, options.model_copy(), Options(**options.values())):
            copy.request(prompt)
        return caplog.messages

    lines = "<seen>a\nb</seen> c"
    [once] = said("<seen>.*</seen>", lines)
    assert "faithful is 0.5, but faithful_to matches nothing" in once
    assert "(?s)" in once
    assert "seen" not in once, "a pattern may be private"
    assert caplog.records[0].levelname == "WARNING"
    assert said("(?s)<seen>.*</seen>", lines) == []


def test_the_passage_may_be_in_any_message() -> None:
    for role in ("system", "user", "tool"):
        found = {"role": role, "content": SHOWN}
        request = asked("pocket", [found, {"role": "user", "content": "m"}], faithful=1)
        assert "hide=" in str(request.formula)


@given(st.text("<>foundk", max_size=30), st.sampled_from([FRAME, "f*", "", "o|<", "(?s).*"]))
def test_a_pattern_hides_something_exactly_if_the_term_reads_other_messages(
    text: str, pattern: str
) -> None:
    messages = [{"role": "user", "content": text}]
    read = [messages_as_read(Prompted(hide=hide), messages) for hide in (pattern, None)]
    assert hides(pattern, messages) == (read[0] != read[1])


def test_a_strength_without_a_pattern_is_refused_before_anything_loads() -> None:
    options = Options(model="/nowhere", faithful=0.5)
    with pytest.raises(RequestError, match=r"faithful_to is not set; write .* faithful_to='"):
        options.submit("k l")
    for wrong in ({"faithful": -0.1}, {"faithful": 1e6}, {"faithful_to": ""}):
        with pytest.raises(ValidationError, match="faithful"):
            Options(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=r"faithful_to='\(' is not a regular expression"):
        Options(faithful_to="(")


def test_a_call_says_how_faithful_it_is() -> None:
    options = Options(faithful_to=FRAME, faithful=0.5)
    assert "hide=" in str(options.request(SHOWN).formula)
    assert options.overridden({"faithful": 0}).request(SHOWN).formula == marith.parse("M")


def test_the_context_length_is_the_smallest_of_all_terms(tiny_dir: str, tmp_path: Any) -> None:
    from marith.testing import tiny_model, tiny_tokenizer

    tiny_model(seed=1, context_length=64).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    small = {"small": {"formula": f"prompted(model={str(tmp_path)!r})"}}
    assert Options(model=tiny_dir, formula="M + small", terms=small).known_context() == 64
    assert Options(model=tiny_dir, formula="M", terms=small).known_context() == 1024


def test_faithful_applies_to_the_redefined_m(tiny_dir: str) -> None:
    options = Options(terms={"M": "x y z"}, faithful=1, faithful_to=FRAME)
    told = marith.Engine.shared(tiny_dir).next_logprobs(
        SHOWN, options.faithful_formula, options.terms
    )
    blind = Prompted("x y z", hide=FRAME)
    formula = Prompted("x y z").min_p(0.1) + Prompted("x y z") - blind
    truth = marith.Engine.shared(tiny_dir).next_logprobs(SHOWN, formula)
    assert_close(told, truth, atol=1e-4, rtol=0)


def test_a_plan_fits_the_formula_where_nothing_was_retrieved_too() -> None:
    only = {"formula": "formal", "terms": {"formal": "x"}, "faithful": 0.5, "faithful_to": FRAME}
    with pytest.raises(ValidationError, match="names 'M', which is not a term of the formula"):
        Options(**only, speculation=marith.Plan.factors({"M": 2}))  # type: ignore[arg-type]
