"""Formulas of a file as options: chosen by name, and independent of the file once read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith import Engine, Options, Plan, Prompted
from marith.formula.text.term_data import as_data

HOUSE = """
[model]
model = "pocket"
temperature = 0.7
stop = ["END"]
chat_template_kwargs = {thinking = false}

[terms]
toxic = "You are toxic."
formal = "Write formally."
blind = {hide = "<context>.*?</context>"}

[formulas]
detox = "M - 0.96*union(toxic, M)"
faithful = {formula = "1.5*M - 0.5*blind", description = "Stays with what was found."}
draft = {formula = "formal", model = "pocket-draft", temperature = 0.9, max_tokens = 40}
quick = {formula = "M + formal", speculation = {every = [["formal", 2]]}, stop = [], seed = 4}
cool = {formula = "M - 0.96*union(toxic, M)", temperature = 0}
"in two words" = 'prompted("M")'
"""
NAMES = ("detox", "faithful", "draft", "quick", "cool", "in two words")
names = st.sampled_from(NAMES)


@pytest.fixture(scope="module")
def persona_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("persona_file") / "marith.toml"
    path.write_text(HOUSE, encoding="utf-8")
    return path


@given(former=st.sampled_from(("", *NAMES)), name=names)
def test_a_name_means_the_same_wherever_it_is_given(
    persona_file: Path, former: str, name: str
) -> None:
    truth = Options.from_file(persona_file, name)
    assert truth.speaks_as == name
    before = Options.from_file(persona_file, former or None)
    assert Options(file=str(persona_file), model=name) == truth
    assert before.overridden({"model": name}) == truth
    assert Options(**{**before.values(), "model": name}) == truth
    assert Options(**{**json.loads(json.dumps(before.chosen())), "model": name}) == truth


@given(name=st.sampled_from(("", *NAMES)), seed=st.none() | st.integers(0, 9))
def test_options_of_a_file_are_a_plain_value(
    persona_file: Path, name: str, seed: int | None
) -> None:
    whole = Options.from_file(persona_file, name or None, seed=seed)
    assert Options(**whole.values()) == whole
    assert Options(**json.loads(json.dumps(whole.chosen()))) == whole
    assert Options.model_validate_json(whole.model_dump_json()) == whole
    assert pickle.loads(pickle.dumps(whole)) == whole == whole.overridden({}) == whole.model_copy()
    assert Options().model_copy(update=whole.values()) == whole


@given(former=names, name=names, temperature=st.floats(0, 2), tokens=st.integers(1, 300))
def test_options_of_a_call_override_the_file(
    persona_file: Path, former: str, name: str, temperature: float, tokens: int
) -> None:
    said = {"temperature": temperature, "max_tokens": tokens}
    called = Options.from_file(persona_file, former).overridden({"model": name, **said})
    assert called == Options.from_file(persona_file, name, **said)
    assert {k: called.values()[k] for k in said} == said
    assert called.speaks_as == name


@given(former=names, name=names, top_k=st.integers(1, 99))
def test_options_given_at_creation_stay_when_the_persona_changes(
    persona_file: Path, former: str, name: str, top_k: int
) -> None:
    before = Options.from_file(persona_file, former, top_k=top_k)
    truth = Options.from_file(persona_file, name, top_k=top_k)
    assert before.overridden({"model": name}) == truth
    assert Options(**{**before.values(), "model": name}) == truth


@given(former=names, name=names)
def test_options_of_a_call_stay_when_the_persona_changes(
    persona_file: Path, former: str, name: str
) -> None:
    said = {"temperature": 1.25, "max_tokens": 41}
    called = Options.from_file(persona_file, former).overridden(said).overridden({"model": name})
    assert called == Options.from_file(persona_file, name, **said)


def test_options_that_are_not_given_come_from_the_chosen_formula(persona_file: Path) -> None:
    file = Options.from_file(persona_file, "quick").file
    assert Options(file=file, model="detox") == Options.from_file(persona_file, "detox")
    assert Options(file=file) == Options.from_file(persona_file, "quick")


def test_options_of_a_formula_override_options_of_the_file(persona_file: Path) -> None:
    detox, draft = (
        Options.from_file(persona_file, "detox"),
        Options.from_file(persona_file, "draft"),
    )
    assert detox.formula == "M - 0.96*union(toxic, M)"
    assert detox.terms["blind"] == as_data(Prompted(hide="<context>.*?</context>"))
    assert (detox.model, detox.temperature, detox.stop) == ("pocket", 0.7, ["END"])
    assert detox.chat_template_kwargs == {"thinking": False}
    assert (draft.model, draft.temperature, draft.max_tokens) == ("pocket-draft", 0.9, 40)
    quick = Options.from_file(persona_file, "quick")
    assert (quick.speculation, quick.stop) == (Plan.factors({"formal": 2}), [])
    plain = Options.from_file(persona_file)
    assert (plain.formula, plain.speaks_as, plain.temperature) == ("M", "pocket", 0.7)
    assert Options.from_file(persona_file, formula="formal").formula == "formal"


@given(one=names, other=names)
def test_two_formulas_differ_in_text_and_not_only_in_name(
    persona_file: Path, one: str, other: str
) -> None:
    def text_of(name: str) -> str:
        chosen = Options.from_file(persona_file, name).chosen()
        del chosen["file"]
        return json.dumps(chosen)

    assert (text_of(one) == text_of(other)) == (one == other)
    assert "You are toxic." in text_of(one)


def test_an_answer_names_a_persona_only_while_its_formula_is_unchanged(persona_file: Path) -> None:
    detox = Options.from_file(persona_file, "detox")
    assert detox.overridden({"temperature": 0.1, "seed": 1}).speaks_as == "detox"
    for changed in ({"formula": "formal"}, {"model": "pocket-draft"}, {"model": "pocket"}):
        called = detox.overridden(changed)
        assert called.speaks_as == called.model == changed.get("model", "pocket")
        assert called.formula == changed.get("formula", detox.formula)
    rebuilt = Options(**{**detox.values(), "formula": "M - 0.5*toxic"})
    assert (rebuilt.speaks_as, rebuilt.formula) == ("pocket", "M - 0.5*toxic")
    assert rebuilt.overridden({"model": "quick"}) == Options.from_file(persona_file, "quick")


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(HOUSE, encoding="utf-8")
    detox = Options.from_file(path, "detox")
    draft = Options.from_file(path, "draft")
    path.unlink()
    assert pickle.loads(pickle.dumps(detox)).overridden({"model": "draft"}) == draft


def test_terms_join_those_of_the_file_and_may_replace_them(persona_file: Path) -> None:
    terms = {"toxic": "You are rude.", "loud": {"system": "SHOUT.", "mode": "replace"}}
    detox = Options.from_file(persona_file, "detox", terms=terms)
    assert detox.speaks_as == "detox"
    assert detox.terms["toxic"] == "You are rude."
    assert detox.terms["loud"] == as_data(Prompted("SHOUT.", "replace"))
    assert detox.terms["formal"] == "Write formally."
    assert Options(**detox.values()) == detox
    assert detox.overridden({"model": "quick"}).terms == detox.terms


def test_another_formula_is_not_given_beside_one_of_the_file(persona_file: Path) -> None:
    problem = "the model 'quick' is a formula of .* remove the other formula, 'formal'"
    for make in (
        lambda: Options.from_file(persona_file, "quick", formula="formal"),
        lambda: Options(file=persona_file, model="quick", formula="formal"),
        lambda: Options.from_file(persona_file, "detox").overridden(
            {"model": "quick", "formula": "formal"}
        ),
        lambda: Options(
            **{
                **Options.from_file(persona_file, "cool").values(),
                "model": "quick",
                "formula": "formal",
            }
        ),
    ):
        with pytest.raises(ValueError, match=problem):
            make()


def test_the_environment_may_name_the_file_and_the_formula(
    persona_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARITH_FILE", str(persona_file))
    assert Options(model="quick") == Options.from_file(persona_file, "quick")
    assert Options(file=None).file is None
    monkeypatch.setenv("MARITH_MODEL", "detox")
    assert Options() == Options.from_file(persona_file, "detox")
    assert (Options().model, Options().speaks_as) == ("pocket", "detox")
    assert Options(formula="2*formal - M").speaks_as == "pocket"


def test_without_a_model_in_the_file_the_callers_model_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "marith.toml"
    path.write_text("[formulas]\nf = '2*M'", encoding="utf-8")
    assert Options.from_file(path, "f").model == "pocket"
    monkeypatch.setenv("MARITH_MODEL", "pocket-draft")
    assert Options.from_file(path, "f").model == "pocket-draft"
    other = Options(file=path, model="/nowhere")
    assert (other.speaks_as, other.overridden({"model": "f"}).model) == ("/nowhere", "pocket-draft")
    monkeypatch.setenv("MARITH_MODEL", "f")
    assert (Options(file=path).speaks_as, Options(file=path).model) == ("f", "pocket")


def test_a_persona_may_be_over_bytes(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    path.write_text('[formulas]\nf = {formula = "M", over = "bytes"}\ng = "M"', encoding="utf-8")
    for name, over in {"f": "bytes", "g": "tokens"}.items():
        engine = Options.from_file(path, name).engine()
        assert engine is Engine.shared("pocket", over=over)
        assert (engine.encode("é") == [0xC3, 0xA9]) == (over == "bytes")


def test_a_given_model_replaces_the_model_of_the_persona(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    model = '[model]\nmodel = "pocket-draft"\nbackend = "transformers"\n'
    path.write_text(f'{model}[formulas]\nf = {{formula = "2*M", model = "pocket-draft"}}')
    options = Options.from_file(path, "f", model="pocket")
    assert (options.model, options.formula, options.backend) == ("pocket", "2*M", None)
    assert Options.from_file(path, "f").model == "pocket-draft"
