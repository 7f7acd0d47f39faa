"""A package of an extra that is not installed is named, with the command that installs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

import pytest
from support.error_sentences import commanded, refusal

from marith.scoring.weights.llama_cpp import ggml

EXTRAS = [
    ("langchain_marith", ["langchain_core"], "langchain"),
    ("langchain_marith.chat", ["langchain_core"], "langchain"),
    ("llamaindex_marith", ["llama_index", "llama_index.core"], "llamaindex"),
    ("marith.evals.harness", ["lm_eval"], "harness"),
]


@contextmanager
def without(*absent: str, anew: str = "") -> Iterator[None]:
    """Let packages be absent, with all that was imported of them, and `anew` imported anew."""
    before, own = dict(sys.modules), tuple(f"{name}." for name in (*absent, anew) if name)
    for name in before:
        if f"{name}.".startswith(own):
            del sys.modules[name]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None is what is absent
    try:
        yield
    finally:
        for name in [name for name in sys.modules if f"{name}.".startswith(own)]:
            del sys.modules[name]
        sys.modules.update(before)
        for name, module in before.items():
            package, _, child = name.rpartition(".")
            if package and f"{name}.".startswith(own):
                setattr(before[package], child, module)


@pytest.mark.parametrize(("module", "absent", "extra"), EXTRAS, ids=[row[0] for row in EXTRAS])
def test_an_import_says_what_to_install(module: str, absent: Sequence[str], extra: str) -> None:
    package = module.removesuffix(".chat")
    with without(*absent, anew=package):
        said = refusal(lambda: import_module(module))
    command = f"pip install 'marith[{extra}]'"
    assert said == f"{package} needs {absent[0]}, which is not installed: {command}"


def test_another_module_that_is_missing_is_not_taken_for_the_extra() -> None:
    with (
        without("marith.openai_format", anew="langchain_marith"),
        pytest.raises(ModuleNotFoundError, match=r"import of marith\.openai_format halted"),
    ):
        import_module("langchain_marith")


@pytest.mark.parametrize(
    "line",
    [
        "eval toxicity --n 1",
        "tune 'a*M' --range a=0:1 --attribute vader:positive --direction down",
    ],
)
def test_an_evaluation_says_what_to_install(line: str) -> None:
    with without("inspect_ai", anew="marith.evals"):
        said = commanded(f"marith {line}")
    sentence = "marith: evaluations need inspect_ai: pip install 'marith[evals]'"
    assert said == (2, "", f"{sentence}\n")


@pytest.mark.parametrize(
    ("package", "line", "sentence"),
    [
        ("lm_eval", "eval harness --tasks x", "the harness is not installed: pip install "
         "'marith[harness]'"),
        ("vaderSentiment", "eval toxicity --n 1 --judge vader:negative", "vader needs "
         "vaderSentiment: pip install 'marith[evals]'"),
        ("optuna", "tune 'a*M' --range a=0:1 --attribute pocket-toxicity:toxic --direction down",
         "a search needs optuna: pip install 'marith[evals]'"),
        ("matplotlib", "eval speed --plot x.png", "a plot needs matplotlib: pip install "
         "'marith[evals]'"),
    ],
)  # fmt: skip
def test_a_command_says_what_to_install(package: str, line: str, sentence: str) -> None:
    import marith.evals.evaluations
    import marith.evals.speed.savings
    import marith.evals.tuning.tune  # noqa: F401  # what a command imports is not timed

    with without(package):
        assert commanded(f"marith {line}") == (2, "", f"marith: {sentence}\n")


def test_llama_cpp_says_what_to_install_and_what_works_without_it() -> None:
    with without("llama_cpp"):
        said = refusal(ggml.library.__wrapped__)
    assert "leave out backend, and transformers runs the file" in said
    assert "pip install 'marith[llamacpp]'" in said
