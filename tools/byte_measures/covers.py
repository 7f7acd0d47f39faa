"""Print how far the distribution from covers is from the one from all tokenisations of a text.

    python -m tools.byte_measures.covers MODEL.gguf

All token sequences count, except those that have less than a hundred-thousandth of the mass of all
sequences of the same bytes. The distance is the total variation of the next byte, at each byte of
texts in seven languages and kinds.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import numpy as np
import typer

from marith import Engine
from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import Cover, CoveredText
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens
from tools.byte_measures.texts import texts

KINDS = ["english", "german", "french", "japanese", "russian", "program", "emoji"]
AT_ONCE = 16


class AllTokenisations(CoveredText):
    """A text with all covers, canonical or not, except the ones with next to no mass."""

    least = 1e-5

    def _after_byte(self, covers: Sequence[Cover], byte: int) -> list[Cover]:
        after = super()._after_byte(covers, byte)
        least = self.least * sum(cover.mass for cover in after)
        # One cover that ends at the last byte stays, so that the text can always go on.
        ended = max((cover for cover in after if not cover.depth), key=lambda cover: cover.weight)
        return [cover for cover in after if cover.mass > least or cover is ended]


def unread(text: CoveredText) -> list[tuple[int, ...]]:
    """Return the tokens of the covers after the last byte for which the model was not asked."""
    return [cover.tokens for cover in text._places[-1].covers if cover.masses is None]


def main(
    model: str,
    size: Annotated[int, typer.Option(help="Bytes of each text, at most.")] = 290,
    kind: Annotated[list[str], typer.Option(help="A kind of text; may be repeated.")] = KINDS,
) -> None:
    """Read one text of each kind byte by byte, and print the distances."""
    with Engine.load(model) as engine, ThreadPoolExecutor(AT_ONCE) as pool:
        vocabulary = engine._registry.vocabulary
        tokens = SortedTokens(vocabulary)
        canonical = CanonicalTokens(vocabulary, tokens)
        start = [vocabulary.start_id]
        print("| text | bytes | mean | median | 99th percentile | largest | rows a byte |")
        print("|---" * 7 + "|")
        found: list[float] = []
        for name in kind:
            data = texts()[f"{name}-1"].encode()[:size]
            covers, every = CoveredText(tokens, canonical), AllTokenisations(tokens, None)
            rows, distances = 0, []
            for end in range(len(data) + 1):
                for text in (covers, every):
                    while text.wanted(data[:end]) is not None:
                        asked = unread(text)
                        rows += len(asked) * (text is every)
                        after = pool.map(
                            lambda ids: engine.next_logprobs(start, continuation=list(ids)), asked
                        )
                        for ids, row in zip(asked, after, strict=True):
                            text.receive(ids, row)
                near, far = (text.rows(1)[0].double().exp() for text in (covers, every))
                distances.append(0.5 * float((near - far).abs().sum()))
            found += distances
            print(
                _line(name, len(data), np.array(distances), f"{rows / len(data):.1f}"), flush=True
            )
        print(_line("all", len(found) - len(kind), np.array(found), ""))


def _line(name: str, size: int, distances: np.ndarray, rows: str) -> str:
    numbers = (
        distances.mean(), np.median(distances), np.quantile(distances, 0.99), distances.max()
    )  # fmt: skip
    return f"| {name} | {size} | {' | '.join(f'{one:.1e}' for one in numbers)} | {rows} |"


if __name__ == "__main__":
    typer.run(main)
