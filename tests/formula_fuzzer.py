"""Formulas that are meant to cost much: recipes in recipes, products of sums, aliases, long sums.

`python tests/formula_fuzzer.py 100000` prints how long the slowest took, and its text.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import marith
from marith.engine.prepare import plan_of
from marith.errors import MarithError
from marith.formula.meaning.binding import names_in, resolve
from marith.formula.text.trust import parse
from marith.formula.tree.terms import Classifier, Prompted

Asked: TypeAlias = "tuple[str, dict[str, str] | None]"  # a formula, and terms

SHORT, LONG = 4_000, 20_000  # letters
BARS = {SHORT: 0.1, LONG: 0.5}  # seconds of processor time, where counting takes COUNTING
COUNTING = 0.01  # seconds of processor time for a sum of 200,000 numbers in a loop
NAMES = ("M", "a", "b", "toxic", "n1", "n2", "n3", "n4")

WRAPS = (
    "cfg({0}, {1})", "cfg({1}, {0})", "context_aware({0}, {1})", "preadd({1}, {0}, 0.5)",
    "nudged({1}, {0})", "nudged({0}, {1})", "union_detox({0}, {1})", "cocoa({0}, {1})",
    "safe_decoded({0}, {1})", "adaptive_context_aware({0}, {1})", "dexperts({0}, {1}, n1)",
    "contrastive({0}, {1})", "genarm({0}, {1}, {1})", "cognac({0}, {1}, n2)", "fudge({0}, C)",
    "self_debiased({0}, {1})", "system_strength({0}, {1})", "proxy_tuned({1}, {0}, a)",
    "ensemble({0}, {1}, {0})", "in_context_mixture({0}, {1})", "unlearned({0}, {1})",
    "negative_prompt({0}, {1})", "dola({0}, {1}, n1, n2)", "gedi({0}, a, b)", "unscaled({0})",
    "union({0}, {1})", "intersection({0}, {0})", "supersede({0}, {1})", "supersede({1}, {0})",
    "{0}.top_k(9)", "{0}.min_p(0.1)", "{0}.temperature(0.5)", "2*({0})", "({0}) + 0.5*{1}",
    "({0}) + {2}*({1} - ({0}))", "({2} + 1)*({0})", "where({2} > 0.5, {0}, {1})", "-({0}) + 2*M",
    "mixture(0.5, {0}, {2}, {1})", "M - 0.5*relu(({0}) - {1})", "M + C.top_k(2) + {0}",
    'M + classifier("c", guide={0})', '({0}) + prompted(vectors={{"v.gguf": 1.2, "w": -0.5}})',
    "({0}) - ({0}) + M", "{3}*({0}) + M",
)  # fmt: skip
FACTORS = (
    "max_prob({0})", "entropy({0})", "jsd({0}, {1})", "margin({0})", "first(3)", "decay(9)",
    "position()", "reasoning()", "calling()", "renyi({1}, {0})", "maximum(max_prob({0}), 0.1)",
    "sigmoid(entropy({0}) - max_prob({1}))",
    "minimum(margin({0}), max_prob({1}), 0.9)", "max_prob({0})/(1 + entropy({1}))", "balance(a, b)",
    "class_prob(C)", "indicator({0} - {1})",
)  # fmt: skip


@dataclass
class Fuzzer:
    """Draws formulas, each a pure function of its seed, of at most so many letters."""

    draw: random.Random
    letters: int

    def asked(self) -> Asked:
        kinds: tuple[Callable[[], Asked], ...] = (
            lambda: (self.nested(self.letters), None),
            lambda: (self.product(self.letters), None),
            lambda: (self.plain(self.letters), None),
            lambda: (self.mixed(self.letters), None),
            self.aliases,
        )
        text, terms = self.draw.choice(kinds)()
        return text[: self.letters], terms

    def name(self) -> str:
        return self.draw.choice(NAMES)

    def factor(self, inside: str | None = None) -> str:
        return self.draw.choice(FACTORS).format(inside or self.name(), self.name())

    def wrapped(self, inside: str) -> str:
        factors = self.factor(), "*".join(f"({self.sum_of_factors(3)})" for _ in range(3))
        return self.draw.choice(WRAPS).format(inside, self.name(), *factors)

    def nested(self, letters: int) -> str:
        """Calls in calls; the same few again and again, or any."""
        several = [self.wrapped("\0") for _ in range(self.draw.choice((1, 2, 9)))]
        text, most = self.name(), self.draw.choice((3, 6, 12, 25, 60))
        for _ in range(most):
            outer = self.draw.choice(several).replace("\0", text)
            if len(outer) > letters:
                break
            text = outer
        return text

    def sum_of_factors(self, most: int) -> str:
        sign = self.draw.choice((" + ", " - ", "*", " + 0.3*"))
        return sign.join(self.factor() for _ in range(self.draw.randint(1, most)))

    def product(self, letters: int) -> str:
        """Sums of factors that are multiplied, as weights of a sum."""
        members: list[str] = ["M"]
        for _ in range(self.draw.choice((1, 2, 20, 99))):
            sums = [self.sum_of_factors(4) for _ in range(self.draw.randint(1, 25))]
            member = "(" + " + 1)*(".join(sums) + f")*({self.name()} - {self.name()})"
            if len(member) + sum(map(len, members)) + 3 * len(members) > letters:
                break
            members.append(member)
        return " + ".join(members)

    def plain(self, letters: int) -> str:
        """Long rows of names, of numbers, of factors, or of arguments."""
        head, between, tail = self.draw.choice(
            (("", "+", ""), ("", " - 0.001*", ""), ("union(", ",", ")"), ("genarm(", ", ", ")"),
             ("ensemble(", ",", ")"), ("M + posterior(", ",", ")"), ("dola(M, ", ",", ")"),
             ("1*", "*1*", "*M"), ("-", "--", ""), ("M*(1 + ", " + ", ")"))
        )  # fmt: skip
        kind = self.draw.choice((self.name, self.factor, lambda: f"x{self.draw.randint(0, 999)}"))
        row = [kind() for _ in range(self.draw.choice((50, letters)))]
        text = head + between.join(row)
        return text[: letters - 20].rpartition(between)[0] + tail if len(text) > letters else text

    def mixed(self, letters: int) -> str:
        """Several of all these beside each other, and around one another."""
        count = self.draw.randint(2, 12)
        kinds = self.nested, self.product, self.plain
        pieces = [self.draw.choice(kinds)(letters // count - 20) for _ in range(count)]
        joined = self.draw.choice((" + ".join, lambda all_: f"union({', '.join(all_)})"))(pieces)
        return self.wrapped(joined) if self.draw.random() < 0.5 else joined

    def aliases(self) -> Asked:
        """Terms that name one another: in a row, doubled, or many beside each other."""
        count = self.draw.choice((3, 12, 60, 500))
        kind = self.draw.choice(("{0}", "{0} + {0}", "unscaled({0})", "wrapped", "far"))
        terms, left = {"t0": self.draw.choice(("Be kind.", self.nested(200)))}, self.letters
        for i in range(1, count):
            inner = f"t{self.draw.randrange(i) if kind == 'far' else i - 1}"
            plain = kind not in ("wrapped", "far")
            terms[f"t{i}"] = kind.format(inner) if plain else self.wrapped(inner)
            left -= len(terms[f"t{i}"]) + 4
            if left < 30:
                break
        order = list(terms.items())
        self.draw.shuffle(order)
        last = f"t{len(terms) - 1}"
        text = self.draw.choice((last, f"M + 0.5*{last}", self.wrapped(last)))
        return text, {
            **dict(order),
            **dict.fromkeys(NAMES[1:], "Be brief."),
            "C": 'classifier("c")',
        }


def drawn(seed: int) -> Asked:
    """The formula of a seed, and its terms if it has its own."""
    draw = random.Random(seed)
    return Fuzzer(draw, LONG if draw.random() < 0.2 else SHORT).asked()


def bar(asked: Asked) -> float:
    """How long a formula and its terms may take, by their letters."""
    text, terms = asked
    letters = len(text) + sum(len(name) + len(term) for name, term in (terms or {}).items())
    return BARS[SHORT if letters <= SHORT else LONG]


def _as_data(terms: Mapping[str, str]) -> dict[str, Any]:
    """Terms with those that are formulas marked so."""
    return {
        name: term if term.startswith("Be ") else {"formula": term} for name, term in terms.items()
    }


def _explain(text: str, terms: Mapping[str, str] | None) -> None:
    marith.explain(text, None if terms is None else _as_data(terms))


def _request(text: str, terms: Mapping[str, str] | None) -> None:
    """What a request does with its formula before a model is asked."""
    formula = parse(text)
    others: Mapping[str, Any] = (
        {name: Prompted(name) for name in names_in(formula)} if terms is None else _as_data(terms)
    )
    known = resolve({"C": Classifier("c"), **others}, formula)
    plan_of(formula, known, "auto")


def seconds(asked: Asked) -> float:
    """The processor time of the slowest call that answers or refuses a formula.

    On a slower machine, or beside others that share its caches, it is divided by how much longer
    counting takes there and then; no search for garbage goes through what else is in memory.
    Anything but an answer or a MarithError is raised.
    """
    took, enabled = [], gc.isenabled()
    gc.disable()
    for call in (_explain, _request):
        start = time.process_time()
        try:
            call(*asked)
        except MarithError:
            pass
        took.append(time.process_time() - start)
    if enabled:
        gc.enable()
    return max(took) / max(1.0, _counting() / COUNTING)


def _counting() -> float:
    start, total = time.process_time(), 0
    for number in range(200_000):
        total += number
    return time.process_time() - start


def slow(seeds: range) -> Iterator[tuple[float, int]]:
    """The share of its bar that each formula takes; one that is over it is given three chances."""
    for seed in seeds:
        asked = drawn(seed)
        share = seconds(asked) / bar(asked)
        if share > 1:
            share = min(share, *(seconds(asked) / bar(asked) for _ in range(3)))
        yield share, seed


def main(count: int, first: int = 0) -> None:
    """Print the worst of so many formulas."""
    shares = sorted(slow(range(first, first + count)), reverse=True)
    print(f"{count} formulas from {first}: {sum(share > 1 for share, _ in shares)} over the bar")
    for share, seed in shares[:5]:
        asked = drawn(seed)
        print(f"{share * bar(asked):.3f} s of {bar(asked)}, seed {seed}: {str(asked)[:200]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or ["100000"]))
