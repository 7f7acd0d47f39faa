"""The package's exports: importable, documented, and with the promised parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import marith

NOWHERE = inspect.Parameter.empty


@pytest.mark.parametrize("name", marith.__all__)
def test_every_export_is_importable_and_documented(name: str) -> None:
    value = getattr(marith, name)
    assert value.__name__ == name
    assert (value.__doc__ or "").strip()
    assert not value.__doc__.startswith(f"{name}("), "dataclasses write this one themselves"


@pytest.mark.parametrize("name", [n for n in marith.__all__ if inspect.isclass(getattr(marith, n))])
def test_every_public_method_is_documented(name: str) -> None:
    for method, value in vars(getattr(marith, name)).items():
        if not method.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{method}"


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        marith.nonsense  # noqa: B018 (to look is to raise)


PROMPT = {"prompt": NOWHERE, "formula": "M", "terms": None}
SAMPLED = {**PROMPT, "sampling": marith.Sampling(temperature=1.0, top_k=None, top_p=1.0, seed=None),
           "stop": marith.Stop(max_tokens=256, strings=()), "speculation": "auto"}  # fmt: skip
DOOR: dict[str, dict[str, Any]] = {
    "Engine.generate": SAMPLED,
    "Engine.stream": SAMPLED,
    "Engine.agenerate": SAMPLED,
    "Engine.astream": SAMPLED,
    "Engine.submit": {"request": NOWHERE},
    "Engine.next_logprobs": {**PROMPT, "continuation": ()},
    "Engine.score": {"prompt": NOWHERE, "continuation": NOWHERE, "formula": "M", "terms": None},
    "Engine.close": {},
    "parse": {"text": NOWHERE, "terms": None},
    "Prompted": {"system": "", "mode": "append", "hide": None, "model": None, "template": None,
                 "options": (), "adapter": None},
    "Classifier": {"model": NOWHERE, "label": 1, "candidates": 50, "guide": None},
    "NGram": {"path": None, "order": 2, "texts": ()},
    "Uniform": {},
    "Stop": {"max_tokens": 256, "strings": ()},
}  # fmt: skip


@pytest.mark.parametrize("path", DOOR)
def test_public_functions_take_the_documented_parameters(path: str) -> None:
    value: Any = marith
    for part in path.split("."):
        value = getattr(value, part)
    parameters = inspect.signature(value).parameters
    found = {n: p.default for n, p in parameters.items() if n != "self" and p.kind != p.VAR_KEYWORD}
    promised = DOOR[path]
    assert list(found)[: len(promised)] == list(promised)
    assert {name: found[name] for name in promised} == promised
    assert all(found[name] is not NOWHERE for name in set(found) - set(promised))


def test_all_errors_are_marith_errors() -> None:
    for name in ("FormulaError", "RequestError", "ContextOverflow", "ModelError", "EngineClosed"):
        assert issubclass(getattr(marith, name), marith.MarithError)
    assert issubclass(marith.FormulaError, ValueError)
    assert issubclass(marith.RequestError, ValueError)
    assert issubclass(marith.ModelError, OSError)
