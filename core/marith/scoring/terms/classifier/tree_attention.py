"""A causal classifier that keeps what it has read: one new token for each text that goes on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from marith.errors import ModelError
from marith.scoring.memory import CacheLimit, Planned
from marith.scoring.passes.chunked_prefill import Unread, alike, choose
from marith.scoring.passes.layer_masks import LayerMasks, unread_kinds
from marith.scoring.passes.probe import SHORT, distance, tolerance, why_inexact
from marith.scoring.passes.ragged_cache import KVCache
from marith.scoring.passes.rectangle_lanes import RectangleLanes
from marith.scoring.terms.classifier.prefix_tree import ROOM, PrefixTree, prefix_trees
from marith.scoring.terms.classifier.whole_texts import (
    BATCH_TOKENS,
    Case,
    ClassLogits,
    Text,
    WholeTextRunner,
)


@dataclass(slots=True, kw_only=True)
class _Work(Unread):
    """What one case still needs: its texts end in the root text or in one of its trees."""

    case: Case
    stops: dict[int, int]
    trees: list[PrefixTree]
    logits: Tensor
    passes: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Row:
    """One row of one pass: tokens of the root text, then a tree in the slots after it."""

    work: _Work
    start: int
    stop: int
    tree: PrefixTree

    @property
    def width(self) -> int:
        return self.stop - self.start + len(self.tree.tokens)

    @property
    def seen(self) -> int:
        """How many slots are read: the tree begins where the whole root text will end."""
        beyond = len(self.tree.tokens)
        return len(self.work.prompt) + beyond if beyond else self.stop

    def columns(self) -> dict[int, int]:
        """Where in the row each text ends that this pass classifies."""
        ended = {n: at - self.start for n, at in self.work.stops.items() if at >= self.start}
        if self.stop < len(self.work.prompt):
            return {}
        beyond = self.stop - self.start
        return ended | {n: beyond + node for n, node in self.tree.leaves.items()}


class TreeRunner:
    """Classifies the texts of a lane as a prefix tree, and keeps the keys and values of its root.

    The cache changes the cost of an answer and never the answer. One call reads at most a
    chunk of long root texts, in the order of the cases. Raises ModelError at construction for a
    model whose cached logits differ from its uncached ones, if `probes` is true.
    """

    def __init__(
        self,
        model: Any,
        padding: int,
        context_length: int,
        most_bytes: int,
        probes: bool = True,
    ) -> None:
        self.model = model
        self.passes = 0
        self._padding = padding
        self._cache = KVCache(int(model.config.get_text_config().num_hidden_layers))
        self.lanes = RectangleLanes(self._cache, most_bytes)
        self._unfinished: dict[Hashable, set[int]] = {}
        self._masks = LayerMasks.of_model(model)
        if probes and (reason := self._why_whole(context_length)):
            raise ModelError(reason)
        self.passes = 0

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes of keys and values these root texts and their trees take at most."""
        return self.lanes.memory([replace(text, more=text.more + ROOM) for text in texts])

    def join(self, limit: CacheLimit) -> None:
        """Let a limit hold for what this keeps too, from here on."""
        limit.join(self.lanes)

    @torch.inference_mode()
    def classify(self, cases: Sequence[Case]) -> list[ClassLogits | None]:
        """Answer what can be answered now, all cases in as few passes as their lengths allow."""
        assert len({case.lane for case in cases}) == len(cases)
        work = [self._begin(case) for case in cases]
        longest = [w.length + max(len(b.tokens) for b in w.trees) for w in work]
        self.lanes.make_room(max(longest, default=0))
        chosen = choose(work, self.lanes)
        rounds = max((len(item.trees) for item in chosen), default=0)
        for turn in range(rounds):
            rows = [row for item in chosen for row in _rows(item, turn)]
            widths = (lambda row: row.width), (lambda row: row.work.lane.row)
            for group in alike(rows, *widths, BATCH_TOKENS):
                self._forward(group)
        return [self._end(item) for item in work]

    @torch.inference_mode()  # lanes that make room move what passes have written
    def release(self, lane: Hashable) -> None:
        """The lane's keys and values stay until another needs the room."""
        self._unfinished.pop(lane, None)  # first: making room may fail
        self.lanes.release(lane)

    def _begin(self, case: Case) -> _Work:
        texts = [_pooled(text, self._padding) for text in case.texts]
        root = list(texts[-1])
        stops, trees = prefix_trees(texts[-1], texts)
        lane = self.lanes.take(case.lane, case.salt, root)
        logits = torch.zeros(len(texts), self.model.config.num_labels, device=self.model.device)
        passes = self._unfinished.pop(case.lane, set())
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
        """One pass over the next tokens of each root, and the trees of those read to the end."""
        hidden = self._pass(rows)
        columns = [row.columns() for row in rows]
        ends = [(i, at) for i, ends_of_row in enumerate(columns) for at in ends_of_row.values()]
        index = torch.tensor(ends, dtype=torch.long, device=hidden.device).view(-1, 2)
        logits = self.model.score(hidden[index[:, 0], index[:, 1]]).float()
        if bool(hidden.isnan().any() | logits.isnan().any()):
            self.lanes.forget()  # keys that are no numbers would reach whoever has the row next
            raise ModelError("the classifier computed what is not a number (NaN)")
        parts = logits.split([len(ends_of_row) for ends_of_row in columns])
        for row, ends_of_row, part in zip(rows, columns, parts, strict=True):
            row.work.logits[list(ends_of_row)] = part
            row.work.lane.tokens = [*row.work.prompt[: row.stop]]
            row.work.passes.add(self.passes)

    def _pass(self, rows: list[_Row]) -> Tensor:
        """What the backbone makes of every token, [rows, width, hidden].

        Padding stands at the end, at position 0, and sees the row's first slot only.
        """
        shape = len(rows), max(row.width for row in rows)
        ids, places = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        reach = torch.zeros(shape, dtype=torch.long)  # it sees the slots up to this one
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
            past_key_values=self._cache,
            use_cache=True,
        )
        self.passes += 1
        hidden: Tensor = out.last_hidden_state
        return hidden

    def _why_whole(self, context_length: int) -> str:
        """Why this model must read whole texts; empty where it need not."""
        if not isinstance(getattr(self.model, "score", None), nn.Linear):
            return "its head is not one product"
        return unread_kinds(self.model) or why_inexact(self.model, context_length, self._differ)

    def _differ(self, model: Any, extra: int) -> str:
        """How the logits of trees differ from those of whole texts, over rows of many lengths."""
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
        except Exception as error:  # whatever a model raises that does not take our cache
            return f"it does not take a cache by lanes ({type(error).__name__}: {error})"
        finally:
            runner.lanes.forget()
        if worst <= tolerance(noise, want, model.dtype):
            return ""
        return f"cached and uncached passes differ by {worst:.2g}"


def _logits(answers: Sequence[ClassLogits | None]) -> Tensor:
    """Of all texts of some cases, [texts, labels]."""
    return torch.cat([answer.logits for answer in answers if answer is not None])


def _rows(item: _Work, turn: int) -> list[_Row]:
    """What a case has to run in one round of passes, if anything."""
    start = len(item.lane.tokens)
    stop = start + item.give
    whole = stop == item.length
    item.give = 0
    tree = item.trees[turn] if whole and turn < len(item.trees) else PrefixTree()
    row = _Row(item, start, stop, tree)
    return [row] if row.width else []


def _pooled(text: Text, padding: int) -> Text:
    """A text up to where transformers reads its judgement: the last token that is no padding."""
    end = len(text)
    while end > 1 and text[end - 1] == padding:
        end -= 1
    return text[:end]
