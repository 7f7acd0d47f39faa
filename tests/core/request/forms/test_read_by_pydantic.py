"""Whatever a model answers in the form of a class of pydantic's, the class reads."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.random_classes import classes
from support.schema_walks import walk

from marith import Engine, Grammar, Sampling, Stop

LAX = settings(suppress_health_check=[HealthCheck.too_slow])


@LAX
@given(made=classes, draw=st.randoms(use_true_random=False))
def test_a_class_reads_every_text_of_its_form(made: Any, draw: random.Random) -> None:
    source = Grammar.json_schema(made).source
    for _ in range(4):
        text = walk(source, draw)
        assert text is None or made.model_validate_json(text), text


@LAX
@given(made=classes, seed=st.integers(0, 999))
def test_a_class_reads_every_whole_answer(letters: Engine, made: Any, seed: int) -> None:
    """From a model with random weights, which follows nothing but the form."""
    form, drawn = Grammar.json_schema(made), Sampling(1.0, seed=seed)
    for out in letters.generate("x", grammar=form, sampling=drawn, stop=Stop(300), n=2):
        assert out.finish_reason == "length" or made.model_validate_json(out.text), out.text
