"""What hypothesis draws from: formulas built by the operators, and random distributions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from marith.formula.nodes import Formula, Name, intersection, supersede, union, unscaled
from marith.formula.terms import Classifier, NGram, Prompted, Term, Uniform

settings.register_profile("marith", deadline=None)
settings.load_profile("marith")

NAMES = ("M", "a", "b", "toxic", "C", "größe", "union")

texts = st.text(max_size=12) | st.sampled_from(
    ['"', "'", "\"'", "\n", "\r\n", "\t\x00\x1f\x7f", "\\", "\\n", "{x}", "# no", "\ue000\ue001"]
)
factors = st.floats(-8, 8, allow_nan=False).filter(lambda f: f == 0 or abs(f) > 1e-3)
options = st.dictionaries(
    st.text(max_size=5), st.booleans() | st.integers() | st.none() | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False), max_size=3,
)  # fmt: skip

names = st.sampled_from(NAMES).map(Name)
prompted = st.builds(
    Prompted, system=texts, mode=st.sampled_from(["append", "prepend", "replace"]),
    hide=st.none() | st.sampled_from(["", r"\d+", "(?s)<a>.*</a>", '"\'', "\n"]),
    model=st.none() | texts, template=st.sampled_from([None, "chat", "plain"]), options=options,
    adapter=st.none() | texts,
)  # fmt: skip
_counting = {"order": st.integers(1, 9), "online": st.booleans()}
ngrams = st.one_of(
    st.builds(NGram, path=texts, **_counting),
    st.builds(NGram, path=st.none(), texts=st.lists(texts, min_size=1, max_size=3), **_counting),
    st.builds(NGram, path=st.none(), order=_counting["order"], online=st.just(True)),
)
plain_leaves = names | prompted | ngrams | st.builds(Uniform)


def _compound(parts: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    several = st.lists(parts, min_size=2, max_size=3)
    fractions = st.floats(0, 1, exclude_min=True)
    return st.one_of(
        st.tuples(parts, parts).map(lambda p: p[0] + p[1]),
        st.tuples(parts, parts).map(lambda p: p[0] - p[1]),
        st.tuples(factors, parts).map(lambda p: p[0] * p[1]),
        st.tuples(parts, factors.filter(bool)).map(lambda p: p[0] / p[1]),
        parts.map(lambda p: -p),
        several.map(lambda p: union(*p)),
        several.map(lambda p: intersection(*p)),
        st.tuples(parts, parts).map(lambda p: supersede(*p)),
        parts.map(unscaled),
        st.tuples(parts, st.integers(1, 10**6)).map(lambda p: p[0].top_k(p[1])),
        st.tuples(parts, fractions).map(lambda p: p[0].top_p(p[1])),
        st.tuples(parts, fractions).map(lambda p: p[0].plausible(p[1])),
    )


guides = st.recursive(plain_leaves, _compound, max_leaves=3)
classifiers = st.builds(
    Classifier, model=texts, label=texts | st.integers(-5, 5), candidates=st.integers(1, 1000),
    guide=st.none() | guides, read_prompt=st.booleans(),
    coverage=st.none() | st.floats(0, 1, exclude_min=True),
)  # fmt: skip


def formulas(max_leaves: int = 8) -> st.SearchStrategy[Formula]:
    """Any formula that the operators can build."""
    return st.recursive(plain_leaves | classifiers, _compound, max_leaves=max_leaves)


def logprobs(positions: int, vocab: int, holes: bool = False) -> st.SearchStrategy[Tensor]:
    """Random log-distributions [positions, vocab]; with `holes`, some tokens are impossible."""

    def build(seed: int, sharpness: float, share: float) -> Tensor:
        source = torch.Generator().manual_seed(seed)
        raw = torch.randn(positions, vocab, generator=source) * sharpness
        if holes:
            forbidden = torch.rand(positions, vocab, generator=source) < share
            forbidden[:, 0] = False  # one token that every term allows
            raw = raw.masked_fill(forbidden, -torch.inf)
        return torch.log_softmax(raw, dim=-1)

    return st.builds(build, st.integers(0, 2**31), st.floats(0.1, 5.0), st.floats(0.0, 0.7))


def speakers(count: int) -> tuple[Prompted, ...]:
    """Distinct terms, `p0` and on."""
    return tuple(Prompted(f"p{i}") for i in range(count))


def spoken(
    terms: tuple[Prompted, ...], positions: int = 2, vocab: int = 9, holes: bool = False
) -> st.SearchStrategy[Mapping[Term, Tensor]]:
    """A random log-distribution for each term."""
    drawn = st.tuples(*(logprobs(positions, vocab, holes) for _ in terms))
    return drawn.map(lambda rows: dict(zip(terms, rows, strict=True)))


def weighty(terms: tuple[Prompted, ...]) -> st.SearchStrategy[Formula]:
    """Formulas over `terms` whose every part has weight above zero."""
    positive = st.floats(0.1, 3.0)

    def grow(parts: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        pair = st.tuples(parts, parts)
        return st.one_of(
            pair.map(lambda p: p[0] + p[1]),
            pair.map(lambda p: union(*p)),
            pair.map(lambda p: intersection(*p)),
            pair.map(lambda p: supersede(*p)),
            st.tuples(positive, parts).map(lambda p: p[0] * p[1]),
            pair.map(lambda p: unscaled(p[0] - 0.5 * p[1])),
        )

    return st.recursive(st.sampled_from(terms), grow, max_leaves=5)
