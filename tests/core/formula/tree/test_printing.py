"""A formula's text reads back as the formula; its drawn tree shows every leaf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from support.strategies import formulas, texts, walk

from marith.formula.text.explaining import draw_tree, nodes_of
from marith.formula.text.parsing import parse_text
from marith.formula.tree.nodes import Formula, Name, children
from marith.formula.tree.operators import union
from marith.formula.tree.printing import locate, to_text, without_texts
from marith.formula.tree.signals import entropy
from marith.formula.tree.terms import Classifier, NGram, Prompted, Uniform

M, a, b = Name("M"), Name("a"), Name("b")


@given(formulas())
@example(Prompted("line\nbreak \"and\" 'quote' \x00\x1b\u2028 ß 😀 \\"))
@example(-(M - a) - 2 * (a + b) - (-1 * (M + b)))
@example(-2 * (M + a).top_k(3) + 0 * b)
def test_text_reads_back_as_the_formula(f: Formula) -> None:
    assert parse_text(str(f)) == f
    assert str(parse_text(str(f))) == str(f)
    assert str(f).isprintable()
    assert repr(f) == str(f)


@given(texts)
def test_a_system_prompt_survives_whatever_is_in_it(system: str) -> None:
    assert parse_text(str(Prompted(system))) == Prompted(system)


def branches(formula: Formula) -> Iterator[Formula]:
    """The tree without what its factors look at."""
    yield formula
    for child in children(formula):
        yield from branches(child)


@given(formulas())
def test_the_drawn_tree_shows_every_leaf_and_one_node_a_line(f: Formula) -> None:
    drawn, nodes = draw_tree([*nodes_of(f)]).split("\n"), [*branches(f)]
    for node in nodes:
        if not children(node):
            assert any(line.endswith(to_text(node)) for line in drawn)
    scaled = sum(type(node).__name__ == "Scaled" for node in nodes)
    assert len(drawn) == len(nodes) - scaled


@given(formulas())
def test_every_part_is_found_in_the_text(f: Formula) -> None:
    for node in walk(f):
        text, start, end = locate(f, node)
        assert parse_text(text) == f
        assert 0 <= start < end <= len(text)
        if not children(node) and not isinstance(node, Name):
            assert text[start:end] == str(node)


CASES = [
    (M - 0.96 * union(Name("toxic"), M) + 0.04 * Name("C"), "M - 0.96*union(toxic, M) + 0.04*C"),
    (2 * M, "2*M"),
    (2.5 * (M + a), "2.5*(M + a)"),
    (-M, "-M"),
    (M - (a - b), "M - (a - b)"),
    ((2 * M).top_k(5), "(2*M).top_k(5)"),
    ((M + a).min_p(0.1), "(M + a).min_p(0.1)"),
    (Prompted(), "prompted()"),
    (Prompted("Be kind."), 'prompted("Be kind.")'),
    (Prompted("I'm", mode="replace"), 'prompted("I\'m", mode="replace")'),
    (
        Prompted("Be kind.", model="base", adapter="path"),
        'prompted("Be kind.", model="base", adapter="path")',
    ),
    (
        Prompted("Hi", vectors=(("b.gguf", 1.2), ("a.gguf", -0.5)), positions="answer"),
        'prompted("Hi", vectors={"b.gguf": 1.2, "a.gguf": -0.5}, positions="answer")',
    ),
    (Prompted(options=(("think", False),)), 'prompted(options={"think": False})'),
    (Classifier("c", label="joy", guide=M), 'classifier("c", label="joy", guide=M)'),
    (NGram(texts=("a b",), order=3), 'ngram(order=3, texts=["a b"])'),
    (Uniform(), "uniform()"),
]


@pytest.mark.parametrize(("formula", "text"), CASES, ids=[text for _, text in CASES])
def test_a_formula_is_written_as_on_paper(formula: Formula, text: str) -> None:
    assert str(formula) == text


def test_a_log_shows_no_file_of_a_vector_but_its_strength() -> None:
    steered = Prompted("Hi", vectors=(("b.gguf", 1.2), ("a.gguf", -0.5)))
    assert without_texts(M - 0.5 * steered) == (
        'M - 0.5*prompted("…", vectors={"…": 1.2, "…": -0.5})'
    )


def test_factors_and_nodes_of_ones_own_are_shown_as_they_are_written() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Doubled(Formula):
        of: Formula

    @dataclass(frozen=True, slots=True, eq=False)
    class Named(Formula):
        of: Formula

        def __repr__(self) -> str:
            return "its own"

    assert repr(entropy(M) + 1) == "entropy(M) + 1"
    assert repr(Doubled(M + a)) == "doubled(M + a)"
    assert repr(Named(M)) == "its own"
