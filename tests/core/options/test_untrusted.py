"""What a call may set if its text is not trusted, or if the model is frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.hostile_formulas import corpus

from marith import FormulaError, MarithError, Options, Prompted, RequestError, load_file
from marith.options.untrusted import OF_A_CALL

OWN = {"kind": "You are kind.", "blind": Prompted(hide="(?s)<c>.*</c>")}
OPTIONS = {"model": "/nowhere", "formula": "M + 0.5*blind", "terms": OWN}
OF_THE_APPLICATION: dict[str, Any] = {
    "cache_salt": "another",
    "model": "/etc", "device": "cpu", "dtype": "float16", "revision": "x", "cache_bytes": 1,
    "max_lanes": 9_999, "max_queue": 0, "context_length": 9, "faithful_to": "(a+)+$",
    "chat_template_kwargs": {"a": 1}, "max_retries": 9_999, "trusted": True, "frozen": False,
    "allowed": ["cfg"], "backend": "llama.cpp", "max_memory": {"cpu": "1GB"}, "loaded_bytes": 1,
    "max_batched_tokens": 9_999, "over": "bytes",
    "constraints": [max], "inspect": 9_999,
    "speculation": '{"drafted_by": ["ngram(\\"/etc/passwd\\")"], "length": 4}',
}  # fmt: skip
FILE = """
[model]
model = "/nowhere"
trusted = {trusted}
[terms]
chef = "You are an angry chef."
blind = {{hide = "<c>.*</c>"}}
[formulas]
cook = "M + 0.5*chef"
careful = {{formula = "1.5*M - 0.5*blind", temperature = 0.5}}
"""


def written(folder: Path, trusted: str = "true") -> Path:
    path = folder / "marith.toml"
    path.write_text(FILE.format(trusted=trusted), encoding="utf-8")
    return path


def test_a_call_joins_terms_of_its_own_to_those_of_the_application() -> None:
    options = Options(**OPTIONS, trusted=False)
    asked = options.overridden({"formula": "2*mine - blind + kind", "terms": {"mine": "Be brief."}})
    assert asked.formula == "2*mine - blind + kind"
    assert asked.terms == {**options.terms, "mine": "Be brief."}
    assert options.overridden({"temperature": 0.5, "stop": ["x"], "speculation": "none"}).stop == [
        "x"
    ]
    assert options.overridden({"formula": Prompted(template="plain")}).formula.startswith(
        "prompted("
    )


@pytest.mark.parametrize("name", OF_THE_APPLICATION)
def test_options_of_the_application_are_refused_for_a_call(name: str) -> None:
    for mode in ({"trusted": False}, {"frozen": True}):
        with pytest.raises(RequestError, match=f"must not set '{name}'; it may set .*temperature"):
            Options(**OPTIONS, **mode).overridden({name: OF_THE_APPLICATION[name]})


def test_every_option_belongs_to_calls_or_to_the_application() -> None:
    restricted = {"formula", "terms"}
    at_creation = {"file", "loaded_engine"}
    assert {*OF_THE_APPLICATION, *OF_A_CALL} | restricted | at_creation == {*Options.model_fields}
    assert not {*OF_THE_APPLICATION} & OF_A_CALL


def test_hostile_text_is_refused_for_a_call() -> None:
    options = Options(**OPTIONS, trusted=False)
    for formula, terms in corpus():
        with pytest.raises((MarithError, ValueError)):
            options.overridden({"formula": formula, "terms": terms})


def test_a_name_of_the_application_keeps_its_meaning() -> None:
    options = Options(**OPTIONS, trusted=False)
    for name in ("kind", "blind", "M"):
        with pytest.raises(FormulaError, match=f"the name '{name}' belongs to the application"):
            options.overridden({"terms": {name: "You are rude."}})
    assert Options(**OPTIONS).overridden({"terms": {"blind": "x"}}).terms == {**OWN, "blind": "x"}


def test_a_frozen_model_takes_no_formula_and_no_terms() -> None:
    options = Options(**OPTIONS, frozen=True)
    for given in ({"formula": "M"}, {"terms": {"x": "y"}}, {"formula": Prompted("x")}):
        with pytest.raises(RequestError, match="a call of a frozen model must not set"):
            options.overridden(given)
    assert options.overridden({"max_tokens": 3}).max_tokens == 3


def test_a_call_may_choose_another_formula_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    for mode in ({"trusted": False}, {"frozen": True}):
        options = Options.from_file(path, "cook", **mode)
        careful = options.overridden({"model": "careful"})
        assert careful.temperature == 0.5
        assert {name: getattr(careful, name) for name in mode} == mode
        with pytest.raises(RequestError, match="to a formula of its file, not to '/etc'; there"):
            options.overridden({"model": "/etc"})
        with pytest.raises(RequestError, match="not to 'carefull'; did you mean 'careful'"):
            options.overridden({"model": "carefull"})


@pytest.mark.parametrize("given", [{}, {"trusted": True}, {"trusted": False}])
def test_a_file_can_lower_trust_but_not_raise_it(given: dict[str, bool], tmp_path: Path) -> None:
    lowered = Options.from_file(written(tmp_path, "false"), "cook", **given)
    assert lowered.trusted is False
    assert lowered.overridden({"model": "careful"}).trusted is False
    kept = Options.from_file(written(tmp_path, "true"), "cook", **given)
    assert kept.trusted is given.get("trusted", True)
    with pytest.raises(FormulaError, match="trusted"):
        Options.from_file(written(tmp_path, '"no"'))


def test_a_formula_of_a_file_has_no_trust_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "marith.toml"
    path.write_text('[formulas]\nf = {formula = "M", trusted = true}', encoding="utf-8")
    with pytest.raises(FormulaError, match="there is no option 'trusted'"):
        Options.from_file(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[terms]\nx = {model = "/etc"}', "untrusted term 'x' must be a text"),
        ("[model]\ntrusted = true", "an untrusted file may only say trusted = false"),
        ("[model]\nfrozen = false", "an untrusted file may only say frozen = true"),
        ('[terms]\nx = {ngram = "/etc/passwd"}', "untrusted term 'x' must be a text"),
        ("[terms]\nx = {formula = 'prompted(hide=\"(a+)+$\")'}", "takes only system and mode"),
        ("[formulas]\nf = 'M + classifier(\"/etc\")'", "formula 'f': untrusted formulas may not"),
        ('[formulas]\nf = {formula = "M", device = "cpu"}', "may set the option 'device'"),
        ('[model]\nmodel = "/etc"', "only the application may set the option 'model'"),
        ("[model]\ntemprature = 1", "no option 'temprature'; did you mean 'temperature'"),
        ('[formulas]\nf = {formula = "M", top_pp = 1}', "no option 'top_pp'; did you mean 'top_p'"),
        ('[model]\nfaithful_to = "x"', "only the application may set the option 'faithful_to'"),
        ('[model]\nchat_template_kwargs = {a = 1}', "only the application may set"),
    ],
)  # fmt: skip
def test_an_untrusted_file_may_do_no_more_than_untrusted_text(
    text: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "marith.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormulaError, match=problem):
        load_file(path, trusted=False)
    path.write_text('[terms]\nx = "Be kind."\n[formulas]\nf = "M + 0.5*x"', encoding="utf-8")
    file = load_file(path, trusted=False)
    assert str(file.formulas["f"]) == "M + 0.5*x"
    assert not Options(formula=file.formulas["f"], terms=file.terms, **file.options).trusted
