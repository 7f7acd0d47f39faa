"""Measure bits a byte of texts, for models alone and for mixtures over bytes.

    python -m tools.byte_prototype.measure score MODEL.gguf NAME FOLDER DATA [options]
    python -m tools.byte_prototype.measure report FOLDER NAME NAME

`score` writes the log-probabilities [bytes + 1, 257] of each text as FOLDER/NAME/TEXT.npy, and
goes on where it stopped. `report` mixes them: w*A + (1-w)*B, renormalised over the 257 symbols.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from marith import Engine
from tools.byte_prototype.covers import BOUND, ByteText, TokenModel
from tools.byte_prototype.texts import texts
from tools.byte_prototype.vocabulary import ByteVocabulary

WEIGHTS = (0.25, 0.5, 0.75)
POWERS = (0.8, 0.9, 1.1, 1.2)  # of one model alone, renormalised
SAMPLES = 10_000  # of the bootstrap
STARTS = ("<|endoftext|>", "<bos>", "<|end|>")  # the token before a text, by the model


def score(options: argparse.Namespace) -> None:
    """Score the texts that have no file yet, a group of them together."""
    folder = options.folder / options.name
    folder.mkdir(parents=True, exist_ok=True)
    data = texts(options.data)
    left = [name for name in data if not (folder / f"{name}.json").exists()]
    # The first text of each kind comes first.
    left.sort(key=lambda name: name.split("-")[1])
    left = left[: options.most] if options.most else left
    with Engine.load(str(options.model), dtype=options.dtype) as engine:
        print(engine, f"{len(left)} texts left", flush=True)
        tokens = engine._registry.vocabulary
        ids = tokens.raw.get_vocab(with_added_tokens=True)
        start = [next(ids[text] for text in STARTS if text in ids)]
        vocabulary, model = ByteVocabulary(tokens), TokenModel(engine)
        for at in range(0, len(left), options.group):
            group = left[at : at + options.group]
            began, rows, batches = time.monotonic(), model.rows, model.batches
            grown = {name: ByteText(vocabulary, bound=options.bound) for name in group}
            found = _along(model, start, {name: data[name] for name in group}, grown)
            took = time.monotonic() - began
            for name in group:
                counts = grown[name].counts
                written = tokens.encode(data[name].decode())
                record = {
                    "bytes": len(data[name]), "rows": counts.rows, "tokens": len(written),
                    "token_bits": -sum(engine.score(start, written)) / np.log(2),
                    "cover_bits": -grown[name].mass / np.log(2),
                    "dropped": counts.dropped, "unchecked": counts.unchecked,
                    "not_canonical": counts.not_canonical, "weights": counts.weights,
                }  # fmt: skip
                np.save(folder / f"{name}.npy", found[name].astype(np.float32))
                (folder / f"{name}.json").write_text(json.dumps(record))
            size = sum(len(data[name]) for name in group)
            rows, batches = model.rows - rows, model.batches - batches
            print(
                f"{' '.join(group)}: {size} bytes, {rows} rows in {batches} batches, {took:.1f} s, "
                f"{1e3 * took / size:.1f} ms a byte, {rows / size:.2f} rows a byte",
                flush=True,
            )


def _along(
    model: TokenModel, start: list[int], data: dict[str, bytes], grown: dict[str, ByteText]
) -> dict[str, np.ndarray]:
    """Return the log-probabilities after each byte of each text, computed side by side."""
    rows: dict[str, list[np.ndarray]] = {name: [] for name in data}
    for place in range(1 + max(map(len, data.values()))):
        live = [name for name in data if place <= len(data[name])]
        model.feed([(grown[name], start) for name in live])
        for name in live:
            rows[name].append(grown[name].logprobs())
            if place < len(data[name]):
                grown[name].advance(data[name][place])
        if place % 100 == 99:
            print(place + 1, "bytes of each", flush=True)
    return {name: np.stack(each) for name, each in rows.items()}


def mixed(a: np.ndarray, b: np.ndarray, w: float) -> np.ndarray:
    """Return w*a + (1-w)*b, renormalised in each row."""
    scores = w * a.astype(np.float64) + (1 - w) * b
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def averaged(a: np.ndarray, b: np.ndarray, w: float) -> np.ndarray:
    """Return the logarithm of w*P_a + (1-w)*P_b."""
    return np.logaddexp(np.log(w) + a.astype(np.float64), np.log(1 - w) + b)


def report(options: argparse.Namespace) -> None:
    """Print a table of bits a byte by kind, and the paired differences of the mixtures."""
    first, second = options.names
    data = texts(options.data)
    done = [
        name
        for name in data
        if all((options.folder / one / f"{name}.json").exists() for one in options.names)
    ]
    ways = {first: lambda a, b: mixed(a, b, 1.0), second: lambda a, b: mixed(a, b, 0.0)}
    for w in WEIGHTS:
        ways[f"{w}*{first} + {1 - w}*{second}"] = lambda a, b, w=w: mixed(a, b, w)
    for w in WEIGHTS:
        ways[f"linear {w}"] = lambda a, b, w=w: averaged(a, b, w)
    # A mixture may also win because it is sharper or flatter than its parts, so these are compared.
    for power in POWERS:
        ways |= {f"{power}*{first}": lambda a, b, w=power: mixed(a, 0 * b, w)}
        ways |= {f"{power}*{second}": lambda a, b, w=power: mixed(0 * a, b, 1 - w)}
    bits = {way: np.zeros(len(done)) for way in ways}
    after = {way: np.zeros(len(done)) for way in ways}
    sizes = np.array([len(data[name]) for name in done])
    tokens = {one: np.zeros(len(done)) for one in options.names}
    for i, name in enumerate(done):
        a, b = (np.load(options.folder / one / f"{name}.npy") for one in options.names)
        actual = np.frombuffer(data[name], np.uint8).astype(int)
        # A symbol that one model cannot write has the least finite number.
        a, b = np.maximum(a, -1e4), np.maximum(b, -1e4)
        for way, mix in ways.items():
            rows = mix(a, b)[: len(actual)]
            each = -rows[np.arange(len(actual)), actual] / np.log(2)
            bits[way][i], after[way][i] = each.sum(), each[64:].sum()
        for one in options.names:
            record = json.loads((options.folder / one / f"{name}.json").read_text())
            tokens[one][i] = record["token_bits"]
    kinds = list(dict.fromkeys(name.split("-")[0] for name in done))
    of_kind = {kind: np.array([name.split("-")[0] == kind for name in done]) for kind in kinds}
    print(f"| | {' | '.join(kinds)} | all | after 64 bytes |")
    print("|---" * (len(kinds) + 3) + "|")
    for way, each in bits.items():
        cells = [each[of_kind[kind]].sum() / sizes[of_kind[kind]].sum() for kind in kinds]
        cells += [each.sum() / sizes.sum(), after[way].sum() / (sizes - 64).sum()]
        print(f"| {way} | {' | '.join(f'{cell:.3f}' for cell in cells)} |")
    for one, each in tokens.items():
        cells = [each[of_kind[kind]].sum() / sizes[of_kind[kind]].sum() for kind in kinds]
        cells.append(each.sum() / sizes.sum())
        print(f"| {one}, its own tokens | {' | '.join(f'{cell:.3f}' for cell in cells)} | |")
    better = min(options.names, key=lambda one: bits[one].sum())
    drawn = np.random.default_rng(0).integers(0, len(done), (SAMPLES, len(done)))
    print(f"\n{len(done)} texts, {sizes.sum()} bytes. Bits a byte less than {better}:\n")
    for way in list(ways)[2:]:
        gain = bits[better] - bits[way]
        spread = gain[drawn].sum(1) / sizes[drawn].sum(1)
        low, high = np.quantile(spread, (0.025, 0.975))
        wins = int((gain > 0).sum())
        print(f"- {way}: {gain.sum() / sizes.sum():.4f} [{low:.4f}, {high:.4f}], better in {wins}")
    own = np.minimum(bits[first], bits[second])
    print("\nThe better part of each text, chosen afterwards:", f"{own.sum() / sizes.sum():.4f}")


def main() -> None:
    """Read the arguments, and score or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("score")
    one.add_argument("model", type=Path)
    one.add_argument("name")
    one.add_argument("folder", type=Path)
    one.add_argument("data", type=Path)
    one.add_argument("--dtype", default="float32")
    one.add_argument("--group", type=int, default=7)
    one.add_argument("--most", type=int, default=0)
    one.add_argument("--bound", type=float, default=BOUND)
    one.set_defaults(run=score)
    two = commands.add_parser("report")
    two.add_argument("folder", type=Path)
    two.add_argument("data", type=Path)
    two.add_argument("names", nargs=2)
    two.set_defaults(run=report)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
