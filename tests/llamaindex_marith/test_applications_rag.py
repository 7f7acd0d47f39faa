"""The application that answers from what was retrieved: its persona knows its own template."""

from __future__ import annotations

from pathlib import Path

from support.applications import application

from llamaindex_marith import context_of
from marith import Prompted

rag = application("llamaindex_rag")


def test_what_a_persona_is_faithful_to_stands_in_its_own_template(tmp_path: Path) -> None:
    careful = rag.persona(tmp_path, "careful", seed=6)  # no number is near another token
    hidden = Prompted(hide=context_of(rag.TEMPLATE))
    written = careful.model_copy(
        update={
            "formula": "(2*formal - M).plausible(0.1) + 0.5*(M - without_context)",
            "terms": {**careful.terms, "without_context": {"formula": str(hidden)}},
            "faithful": 0.0,
        }
    )
    question = "What colour is grass?"
    asked = rag.TEMPLATE.format(context_str=rag.PASSAGES[1], query_str=question)
    assert careful.complete(asked).text == written.complete(asked).text
    bare = careful.complete(question, faithful=0)
    assert careful.complete(question).text == bare.text  # nothing was retrieved
