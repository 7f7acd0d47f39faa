"""What evaluations of pocket read is what the grammar draws."""

from __future__ import annotations

import json
from itertools import islice

from marith.evals import pocket_texts
from tools.pocket import evaluation_texts


def test_every_file_holds_what_the_grammar_draws() -> None:
    kinds = evaluation_texts.kinds()
    for kind, drawn in kinds.items():
        assert json.loads(json.dumps(drawn)) == list(pocket_texts.records(kind))
    assert {pocket_texts.file(kind) for kind in kinds} == {*pocket_texts.FOLDER.glob("*.jsonl")}
    for voice in evaluation_texts.MANNERLY:
        assert pocket_texts.phrases_by_prompt()[voice] == evaluation_texts.own_phrases(voice)
    lines = pocket_texts.REPLIES.read_text(encoding="utf-8").split("\n")
    assert list(islice(evaluation_texts.replies(), 500)) == lines[:500]
