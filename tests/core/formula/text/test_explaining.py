"""An explanation shows the tree, the weight, and what a formula normalises to."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.strategies import formulas

from marith.errors import FormulaError
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.checking import check
from marith.formula.meaning.weights import weigh, weight_of
from marith.formula.text.explaining import Explanation, draw_tree, explain
from marith.formula.text.trust import parse
from marith.formula.tree.factors import Factor
from marith.formula.tree.nodes import Formula, Name
from marith.formula.tree.operators import intersection, union
from marith.formula.tree.signals import max_prob
from marith.formula.tree.terms import Classifier, Prompted

LETTERS = ("a", "b", "c", "d")
TERMS: dict[str, str | Formula] = {
    **dict.fromkeys(("a", "b", "toxic", "größe", "union"), "some prompt"),
    "C": Classifier("c"),
}
NAMED = resolve(TERMS)
VALUES = dict(zip(LETTERS, (-0.7, -1.9, -0.2, -3.1), strict=True))
PEAKS = dict(zip(LETTERS, (0.5, 0.15, 0.8, 0.35), strict=True))


def line(text: str, head: str) -> str:
    (found,) = [row for row in text.split("\n") if row.startswith(head)]
    return found.removeprefix(head).strip()


def normalised(formula: str | Formula, **terms: str | Formula) -> str:
    said = line(explain(formula, terms or None), "normalised:")
    return said.removeprefix("log P = ").removesuffix("  (+ constant)")


def value_of(written: str) -> float:
    """What a normalised form is worth when `log a` is VALUES["a"]."""
    plain = written.replace("−", "-").replace("·", "*").replace("log ", "")

    def worth(node: ast.expr) -> float:
        match node:
            case ast.Name(id=name):
                return VALUES[name]
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.UnaryOp(operand=operand):
                return -worth(operand)
            case ast.BinOp(left, ast.Add(), right):
                return worth(left) + worth(right)
            case ast.BinOp(left, ast.Sub(), right):
                return worth(left) - worth(right)
            case ast.BinOp(left, ast.Mult(), right):
                return worth(left) * worth(right)
            case ast.BinOp(left, ast.Div(), right):
                return worth(left) / worth(right)
            case ast.Call(ast.Name(id="max_prob"), [ast.Name(id=name)]):
                return PEAKS[name]
            case ast.Call(ast.Name(id="max" | "union"), given_):
                return max(map(worth, given_))
            case ast.Call(ast.Name(id="min" | "intersection"), given_):
                return min(map(worth, given_))
            case ast.Call(ast.Name(id="relu"), [inside]):
                return max(0.0, worth(inside))
        raise AssertionError(ast.dump(node))

    return worth(ast.parse(plain, mode="eval").body)


small = st.integers(-300, 300).map(lambda i: i / 100)
singles = st.sampled_from(LETTERS)
pairs = st.tuples(st.sampled_from(["max", "min"]), singles, singles)


@given(st.lists(st.tuples(small, singles | pairs), min_size=1, max_size=6))
def test_the_normalised_form_is_the_formula_divided_by_its_weight(
    pieces: list[tuple[float, str | tuple[str, str, str]]],
) -> None:
    weight = sum(factor for factor, _ in pieces)
    assume(weight > 0.1)
    formula, expected = None, 0.0
    part: Formula
    for factor, atom in pieces:
        if isinstance(atom, str):
            part, worth = Name(atom), VALUES[atom]
        else:
            kind, x, y = atom
            build, choose = (union, max) if kind == "max" else (intersection, min)
            part, worth = build(Name(x), Name(y)), choose(VALUES[x], VALUES[y])
        piece = factor * part
        formula = piece if formula is None else formula + piece
        expected += factor / weight * worth
    assert formula is not None
    assert value_of(normalised(formula)) == pytest.approx(expected, abs=2e-3)


changing = st.tuples(small, st.just(0.0) | small, singles)  # x + y·max_prob of it


@given(st.lists(st.tuples(changing, singles, singles), min_size=1, max_size=4), singles)
def test_factors_that_change_with_the_context_are_written_as_they_count(
    pieces: list[tuple[tuple[float, float, str], str, str]], base: str
) -> None:
    """Beside the base, each factor times a term, or times the difference of two."""
    formula: Formula = 4 * Name(base)
    score, weight = 4 * VALUES[base], 4.0
    for (number, slope, of), one, other in pieces:
        factor: Factor = number + slope * max_prob(Name(of)) if slope else number
        part: Formula = Name(one) if one == other else Name(one) - Name(other)
        formula = formula + factor * part
        value = number + slope * PEAKS[of]
        score += value * (VALUES[one] - (one != other) * VALUES[other])
        weight += value * (one == other)
    assume(weight_of(formula, dict.fromkeys(LETTERS, Prompted())) > 0.1)
    assert value_of(normalised(formula)) == pytest.approx(score / weight, abs=2e-3, rel=1e-3)


@given(st.lists(st.tuples(small, singles), min_size=1, max_size=6))
def test_a_sums_coefficients_are_collected(pieces: list[tuple[float, str]]) -> None:
    weight = sum(factor for factor, _ in pieces)
    assume(weight > 0.1)
    shares: dict[str, float] = defaultdict(float)
    formula: Formula = pieces[0][0] * Name(pieces[0][1])
    for i, (factor, name) in enumerate(pieces):
        shares[name] += factor / weight
        formula = formula + factor * Name(name) if i else formula
    written = normalised(formula)
    for name, share in shares.items():
        assert written.count(f"log {name}") == (abs(share) > 1e-9)


CASES = [
    ("M", "log M"),
    ("2*M", "log M"),
    ("M + a", "0.5·log M + 0.5·log a"),
    ("2*a - M", "2·log a − log M"),
    ("-M + 2*a", "−log M + 2·log a"),
    ("M - 0.96*union(toxic, M)", "log M − 24·relu(log toxic − log M)"),
    ("M - 0.96*union(M, toxic)", "log M − 24·relu(log toxic − log M)"),
    ("M - 0.96*union(toxic, M) + 0.04*C", "log M + C − 24·relu(log toxic − log M)"),
    ("M - 0.5*intersection(a, M)", "log M + relu(log M − log a)"),
    ("union(a, b)", "max(log a, log b)"),
    ("intersection(a, b)", "min(log a, log b)"),
    ("M + 3*C", "log M + 3·C"),
    ("M - 24*relu(toxic - M)", "log M − 24·relu(log toxic − log M)"),
    ("M + jsd(M, a)*(M - a)", "log M + jsd(M, a)·(log M − log a)"),
    ("(1 - max_prob(M))*M + max_prob(M)*a", "(1 - max_prob(M))·log M + max_prob(M)·log a"),
    ("M + 2*max_prob(M)*a", "(log M + 2·max_prob(M)·log a) / (1 + 2·max_prob(M))"),
    ("M - 0.5*max_prob(M)*a", "(log M − 0.5·max_prob(M)·log a) / (1 − 0.5·max_prob(M))"),
    ("M + max_prob(M)*((2*a).top_k(3) - 2*b)",
     "log M + max_prob(M)·(2·log (2*a).top_k(3) − 2·log b)"),
    ("M + (M + max_prob(a)*a).top_k(2)",
     "(log M + (1 + max_prob(a))·log (M + max_prob(a)*a).top_k(2)) / (2 + max_prob(a))"),
    ("M + 30*posterior(a, b)", "log M + 30·posterior(a, b)"),
    ("where(max_prob(M) < 0.3, a, M)", "log where(max_prob(M) < 0.3, a, M)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "form"), CASES, ids=[text for text, _ in CASES])
def test_the_normalised_form_is_written_as_in_the_paper(text: str, form: str) -> None:
    assert normalised(text) == form


def test_terms_are_the_callers_where_they_are_given() -> None:
    assert normalised("M + 2*judge", judge="x") == "0.333333·log M + 0.666667·log judge"
    said = explain("M + 2*judge", {"judge": Classifier("x")})
    assert "log P = log M + 2·judge" in said
    with pytest.raises(FormulaError, match="unknown term 'toxic'"):
        explain("M + toxic", {"a": "x"})


@given(formulas())
def test_every_valid_formula_is_explained_and_no_invalid_one(f: Formula) -> None:
    try:
        check(f, NAMED)
    except FormulaError:
        with pytest.raises(FormulaError):
            explain(f, TERMS)
        return
    said = explain(f, TERMS)
    assert said.startswith(f"{f}\n\n")
    assert line(said, "normalised:")
    assert line(said, "total weight:") == str(weigh(f, NAMED))
    bound = bind(f, NAMED)
    check(bound, {})
    assert line(explain(bound), "total weight:") == str(weigh(bound))


def test_a_union_beside_a_union_of_itself_loses_nothing() -> None:
    written = normalised("union(a, b) + union(union(a, b), c)")
    expected = (max(VALUES["a"], VALUES["b"]) + max(VALUES["a"], VALUES["b"], VALUES["c"])) / 2
    assert value_of(written) == pytest.approx(expected)


@pytest.mark.parametrize("named", ["relu(a - M)", "posterior(a, b)", "agreed(M, a)", "2*C"])
def test_a_term_without_a_distribution_is_written_without_log(named: str) -> None:
    written = normalised("M + 0.5*t", t=parse(named), a="x", b="y", C=Classifier("c"))
    assert written == {"2*C": 'log M + classifier("c")'}.get(named, "log M + 0.5·t")


def test_a_named_sum_counts_with_its_weight() -> None:
    assert normalised("M + t", t=parse("2*a"), a="x") == "0.333333·log M + 0.666667·log t"
    assert normalised("M + (2*a).top_k(3)").startswith("0.333333·log M + 0.666667·")


def test_the_fields_of_an_explanation_agree_with_its_text() -> None:
    formula = "M - 0.96*union(toxic, M) + 0.04*C"
    explanation = Explanation.of(formula)
    assert str(explanation) == explain(formula)
    assert explanation.formula == formula
    assert explanation.names == ("M", "toxic", "C")
    assert explanation.tree[:4] == ((0, "sum"), (1, "M"), (1, "-0.96 × union"), (2, "toxic"))
    drawn = draw_tree(explanation.tree).splitlines()
    for (depth, text), line in zip(explanation.tree, drawn, strict=True):
        assert line.endswith(text)
        assert len(line) - len(text) == 4 * depth


def test_terms_with_vectors_are_told_in_words() -> None:
    inline = Prompted("Hi", vectors=(("c.gguf", 1.0),))
    terms = {
        "happy": Prompted(vectors=(("happy.gguf", 1.2), ("formal.gguf", -0.5))),
        "kind": Prompted("Be kind.", vectors=(("k.gguf", 2.0),), positions="answer"),
        "toxic": "You are toxic.",
        "unused": Prompted(vectors=(("u.gguf", 1.0),)),
    }
    explanation = Explanation.of(parse("2*happy - 0.5*union(kind, toxic)") + inline, terms)
    assert explanation.vectors == (
        "happy adds 1.2 × 'happy.gguf' and -0.5 × 'formal.gguf' to the hidden states of all tokens",
        "kind adds 2 × 'k.gguf' to the hidden states from the last token of the prompt on",
        f"{inline} adds 1 × 'c.gguf' to the hidden states of all tokens",
    )
    assert line(str(explanation), "vectors:      kind") == explanation.vectors[1][5:]
    hidden = explanation.without_texts()
    assert not any("gguf" in sentence for sentence in hidden.vectors)
    assert hidden.vectors[0].startswith('happy adds 1.2 × "…" and -0.5 × "…" to')
    assert Explanation.of("happy - 0.5*toxic").vectors == ()
