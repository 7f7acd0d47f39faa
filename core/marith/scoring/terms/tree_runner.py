"""The runner of causal classifiers: each case is a prefix tree, and its root is cached.

A text that has grown by a token then costs one more token of its root, and its candidates.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from marith.errors import ModelError
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.chunked_prefill import CHUNK, Unread, choose, group_by_width
from marith.scoring.passes.layer_masks import LayerMasks, unread_kinds
from marith.scoring.passes.passes import cache_argument
from marith.scoring.passes.probe import SHORT, distance, tolerance, why_inexact
from marith.scoring.passes.rectangle.rectangle_cache import KVCache
from marith.scoring.passes.rectangle.rectangle_lanes import RectangleLanes
from marith.scoring.terms.prefix_tree import ROOM, PrefixTree, prefix_trees
from marith.scoring.terms.whole_texts import (
    BATCH_TOKENS,
    Case,
    ClassLogits,
    Text,
    WholeTextRunner,
)
from marith.scoring.weights.kinds import why_nan


@dataclass(slots=True, kw_only=True)
class _Work(Unread):
    """A case while it is read. Each of its texts ends in the root text or in one of the trees."""

    case: Case
    stops: dict[int, int]
    trees: list[PrefixTree]
    logits: Tensor
    passes: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Row:
    """One row of one pass: tokens of the root text, then a tree in the slots after the root."""

    work: _Work
    start: int
    stop: int
    tree: PrefixTree

    @property
    def width(self) -> int:
        return self.stop - self.start + len(self.tree.tokens)

    @property
    def seen(self) -> int:
        """The number of slots that are read. A tree begins in the slot after its whole root."""
        beyond = len(self.tree.tokens)
        return len(self.work.prompt) + beyond if beyond else self.stop

    def columns(self) -> dict[int, int]:
        """Return the columns at which texts end in this row, by the numbers of these texts."""
        ended = {n: at - self.start for n, at in self.work.stops.items() if at >= self.start}
        if self.stop < len(self.work.prompt):
            return {}
        beyond = self.stop - self.start
        return ended | {n: beyond + node for n, node in self.tree.leaves.items()}


class TreeRunner:
    """A runner that classifies the texts of a lane as a prefix tree, and caches the tree's root.

    The cache changes the cost of an answer, never the answer. One call reads at most `at_once`
    tokens of all long root texts together, the shortest text first. If `probes` is True,
    construction raises ModelError for a model whose cached logits differ from its uncached logits.
    """

    def __init__(
        self,
        model: Any,
        padding: int,
        context_length: int,
        most_bytes: int,
        probes: bool = True,
        at_once: int = CHUNK,
    ) -> None:
        self.model = model
        self.passes = 0
        self._padding = padding
        self._cache = KVCache(int(model.config.get_text_config().num_hidden_layers))
        self._cache_argument = cache_argument(model.base_model)
        self._masks = LayerMasks.of_model(model)
        self.lanes = RectangleLanes(self._cache, most_bytes, self._masks, model.device)
        self._unfinished: dict[Hashable, set[int]] = {}
        # The probe reads each of its texts in one call.
        self._at_once = CHUNK
        if probes and (reason := self._why_whole(context_length)):
            raise ModelError(reason)
        self.passes, self._at_once = 0, at_once

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of keys and values of these root texts and trees."""
        return self.lanes.memory([replace(text, more=text.more + ROOM) for text in texts])

    def join(self, limit: CacheLimit) -> None:
        """Keep the cache within `limit`, which several models share, from now on."""
        limit.join(self.lanes)

    @torch.inference_mode()
    def classify(self, cases: Sequence[Case]) -> list[ClassLogits | None]:
        """Answer the cases that can be answered now, in as few passes as their lengths allow.

        An answer is None while its root text is still being read.
        """
        assert len({case.lane for case in cases}) == len(cases)
        work = [self._begin(case) for case in cases]
        longest = [w.length + max(len(b.tokens) for b in w.trees) for w in work]
        self.lanes.make_room(max(longest, default=0))
        chosen = choose(work, self.lanes, self._at_once)
        rounds = max((len(item.trees) for item in chosen), default=0)
        for turn in range(rounds):
            rows = [row for item in chosen for row in _rows(item, turn)]
            widths = (lambda row: row.width), (lambda row: row.work.lane.row)
            for group in group_by_width(rows, *widths, BATCH_TOKENS):
                self._forward(group)
        return [self._end(item) for item in work]

    # Making room changes tensors that passes have written, which only inference mode allows.
    @torch.inference_mode()
    def release(self, lane: Hashable) -> None:
        """Release a lane. Its keys and values stay cached until another lane needs the room."""
        # The unfinished passes are dropped first, because making room may fail.
        self._unfinished.pop(lane, None)
        self.lanes.release(lane)

    def _begin(self, case: Case) -> _Work:
        texts = [_pooled(text, self._padding) for text in case.texts]
        root = list(texts[-1])
        stops, trees = prefix_trees(texts[-1], texts)
        lane = self.lanes.take(case.lane, case.salt, root)
        logits = torch.zeros(len(texts), self.model.config.num_labels, device=self.model.device)
        passes = self._unfinished.pop(case.lane, set())
        # The root is read again from the first token at which a text ends, even if it is cached,
        # because only a pass gives the logits there.
        asked = len(root) - min(stops.values(), default=len(root))
        del lane.tokens[len(root) - asked :]
        return _Work(
            lane=lane,
            prompt=root,
            continuation=(),
            length=len(root),
            asked=asked,
            case=case,
            stops=stops,
            trees=trees,
            logits=logits,
            passes=passes,
        )

    def _end(self, item: _Work) -> ClassLogits | None:
        if item.missing == 0:
            return ClassLogits(item.logits, frozenset(item.passes))
        self._unfinished[item.case.lane] = item.passes
        return None

    def _forward(self, rows: list[_Row]) -> None:
        """Run one pass over the next tokens of each root, and over trees whose root is read."""
        hidden = self._pass(rows)
        columns = [row.columns() for row in rows]
        ends = [(i, at) for i, ends_of_row in enumerate(columns) for at in ends_of_row.values()]
        index = torch.tensor(ends, dtype=torch.long, device=hidden.device).view(-1, 2)
        logits = self.model.score(hidden[index[:, 0], index[:, 1]]).float()
        if bool(hidden.isnan().any() | logits.isnan().any()):
            # NaN keys would reach the next text in this row.
            self.lanes.forget()
            raise ModelError(
                why_nan(self.model.name_or_path or type(self.model).__name__, self.model)
            )
        parts = logits.split([len(ends_of_row) for ends_of_row in columns])
        for row, ends_of_row, part in zip(rows, columns, parts, strict=True):
            row.work.logits[list(ends_of_row)] = part
            # The tokens of the tree are not cached: the next pass overwrites their slots.
            row.work.lane.tokens = [*row.work.prompt[: row.stop]]
            row.work.passes.add(self.passes)

    def _pass(self, rows: list[_Row]) -> Tensor:
        """Return the hidden states of every token, [rows, width, hidden].

        Padding stands at the end, at position 0, and sees only the row's first slot.
        """
        shape = len(rows), max(row.width for row in rows)
        ids, places = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        # Each token sees all slots up to its reach. A token of a tree also sees its ancestors.
        reach = torch.zeros(shape, dtype=torch.long)
        slots = torch.full(shape, self._cache.padding_slot)
        mask = torch.zeros(*shape, max(row.seen for row in rows), dtype=torch.bool)
        keys = torch.arange(mask.shape[-1]).repeat(len(rows), 1)
        for i, row in enumerate(rows):
            kept, tree, root = slice(row.stop - row.start), row.tree, row.work.prompt
            beyond = slice(row.stop - row.start, row.width)
            ids[i, : row.width] = torch.tensor([*root[row.start : row.stop], *tree.tokens])
            places[i, kept] = reach[i, kept] = torch.arange(row.start, row.stop)
            slots[i, kept] = places[i, kept]
            slots[i, beyond] = torch.arange(len(tree.tokens)) + len(root)
            places[i, beyond] = torch.tensor(tree.places, dtype=torch.long)
            reach[i, beyond] = torch.tensor(tree.forks, dtype=torch.long) - 1
            if tree.tokens:
                mask[i, beyond, len(root) : row.seen] = tree.mask()
                keys[i, len(root) : row.seen] = places[i, beyond]
        mask |= torch.arange(mask.shape[-1]) <= reach[:, :, None]
        device = self.model.device
        places = places.to(device)
        self._cache.aim([row.work.lane.row for row in rows], slots.to(device), mask.shape[-1])
        out = self.model.base_model(
            input_ids=ids.to(device),
            attention_mask=self._masks.within(mask.to(device), places, keys[:, None].to(device)),
            position_ids=places,
            use_cache=True,
            **{self._cache_argument: self._cache},
        )
        self.passes += 1
        hidden: Tensor = out.last_hidden_state
        return hidden

    def _why_whole(self, context_length: int) -> str:
        """Return why this model must read whole texts; "" if it can read prefix trees."""
        if not isinstance(getattr(self.model, "score", None), nn.Linear):
            return "its head is not a linear layer"
        return unread_kinds(self.model) or why_inexact(self.model, context_length, self._differ)

    def _differ(self, model: Any, extra: int) -> str:
        """Return how the logits of trees differ from the logits of whole texts; "" if they do not.

        The rows that are compared have many lengths.
        """
        runner = self
        if model is not self.model:
            runner = TreeRunner(model, 0, 0, 0, probes=False)
        vocab = int(model.config.get_text_config().vocab_size)
        draw = torch.Generator().manual_seed(0)
        texts = torch.randint(0, vocab, (3, SHORT + extra), generator=draw).tolist()
        a, b, c = (tuple(row) for row in texts)
        first = [Case(0, [a[: 5 + extra]]), Case(1, [b[:2] + c[:1], b[:3]])]
        root = a[: 7 + extra]
        last = [Case(0, [root[:-1], a, a[:4] + c[:5], root]), Case(1, [b[:4], c[:9], b[:5]])]
        whole = WholeTextRunner(model, runner._padding)
        want = _logits(whole.classify(last))
        alone = [whole.classify([Case(0, [text])]) for case in last for text in case.texts]
        noise = distance(torch.cat([_logits(answers) for answers in alone]), want)
        try:
            runner.classify(first)
            worst = distance(_logits(runner.classify(last)), want)
        # The model's code may raise any error, if it does not take the cache of marith.
        except Exception as error:
            return f"it does not take a cache by lanes ({type(error).__name__}: {error})"
        finally:
            runner.lanes.forget()
        if worst <= tolerance(noise, want, model.dtype):
            return ""
        return f"cached and uncached passes differ by {worst:.2g}"


def _logits(answers: Sequence[ClassLogits | None]) -> Tensor:
    """Return the logits of all texts of some cases, [texts, labels]."""
    return torch.cat([answer.logits for answer in answers if answer is not None])


def _rows(item: _Work, turn: int) -> list[_Row]:
    """Return the row that a case runs in one round of passes, or an empty list."""
    start = len(item.lane.tokens)
    stop = start + item.give
    whole = stop == item.length
    # The first round reads the tokens of the root. Later rounds read only trees.
    item.give = 0
    tree = item.trees[turn] if whole and turn < len(item.trees) else PrefixTree()
    row = _Row(item, start, stop, tree)
    return [row] if row.width else []


def _pooled(text: Text, padding: int) -> Text:
    """Return a text without the padding tokens at its end.

    transformers too reads the logits at the last token that is not padding.
    """
    end = len(text)
    while end > 1 and text[end - 1] == padding:
        end -= 1
    return text[:end]
