"""Texts of random schemas, said by a persona that is stronger than the model was."""

from __future__ import annotations

import json

import jsonschema
from support.schemas import random_schema

from marith import Completion, Engine, Grammar, Request, Sampling, Stop

FORMULA, TERMS = "2*formal - M", {"formal": "You are a formal butler."}
FIRST = 40  # of the seeds: no number of the first twenty lies within 4e-5 of another token


def texts_of_schemas(
    engine: Engine, kinds: int, each: int
) -> tuple[list[Request], list[Completion]]:
    """So many texts of each of so many schemas, of which all are valid and few are equal."""
    schemas = [random_schema(seed) for seed in range(kinds)]
    grammars = [Grammar.json_schema(schema) for schema in schemas]
    requests = [
        Request(
            "Describe a thing.",
            FORMULA,
            TERMS,
            Sampling(1.3, seed=FIRST + i),
            Stop(900),
            grammar=grammars[i % kinds],
        )
        for i in range(kinds * each)
    ]
    done = [ticket.result(250) for ticket in [engine.submit(one) for one in requests]]
    for i, out in enumerate(done):
        assert out.finish_reason == "stop"
        jsonschema.Draft202012Validator(schemas[i % kinds]).validate(json.loads(out.text))
        assert "\ufffd" not in out.text
    assert len({out.text for out in done}) >= len(done) * 3 // 4, "they should differ"
    return requests, done
