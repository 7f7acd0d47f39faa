"""States of texts, for models whose layers keep states: each by itself, or several joined.

A state is a cache of transformers' own kinds of layers, and cannot be truncated. States of several
texts are joined as the rows of one cache, for passes that read one token of each text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from marith.scoring.cache_limit import Keeper
from marith.scoring.passes.lanes import IDLE_LANES, SHORT_PREFIX
from marith.scoring.passes.layer_masks import layer_count

# These updates write nothing in place, so the old tensors stay unchanged.
_REPLACING = (DynamicLayer.update, DynamicSlidingWindowLayer.update)
# A layer with a window counts its tokens in this attribute.
_LENGTH = "cumulative_length"
_WINDOW = "sliding_window"
_KEYS = ("keys", "values")


@dataclass(slots=True, eq=False)
class State:
    """The state of a model after a text, in a cache of transformers' own kinds of layers.

    Texts of the same `key` may continue the state. The key names the weights that computed it, and
    the salt of the text. A text that continues a `snapshot` copies the snapshot. While a state is
    `joined` with others, their common cache holds it. A state with neither `cache` nor `joined` is
    the state before any token.
    """

    key: Hashable
    tokens: list[int]
    cache: Cache | None = None
    snapshot: bool = False
    joined: Joined | None = None

    def copied(self, snapshot: bool = False) -> State:
        """Return an independent copy.

        Keys and values that are never overwritten are shared.
        """
        self.part()
        layers: list[Any] = self.cache.layers if self.cache else []
        keyed = [layer for layer in layers if keeps_keys(layer)]
        shared = {id(kept): kept for layer in keyed for kept in (layer.keys, layer.values)}
        # deepcopy takes the tensors of this table as they are, and copies everything else.
        cache = copy.deepcopy(self.cache, shared)
        return State(self.key, [*self.tokens], cache, snapshot)

    def part(self) -> None:
        """Move the state from a joined cache back to a cache of its own."""
        if self.joined is not None:
            self.joined.split()

    def begins(self, key: Hashable, text: list[int], limit: int) -> bool:
        """Return True if a text can continue this state. It must have at most `limit` tokens."""
        length = len(self.tokens)
        return self.key == key and length <= limit and self.tokens == text[:length]

    @property
    def kept_in(self) -> Cache | None:
        """The cache that holds the state: its own cache, or the joined cache."""
        return self.cache if self.joined is None else self.joined.cache

    @property
    def nbytes(self) -> int:
        """The bytes of the state's tensors; of a joined cache, an equal share."""
        if self.joined is not None:
            return nbytes_of(self.joined.cache) // len(self.joined.states)
        return nbytes_of(self.cache) if self.cache else 0


class KeptStates(Keeper):
    """The states of a model's lanes, and idle states, for texts that continue them.

    A lane holds one state, and may hold another from before its last drafts. Idle states, which no
    lane holds, stay while all caches under one `cache_limit` hold no more than the limit; the least
    recently used is dropped first. States of lanes in use stay, whatever their size. The states
    change the cost of an answer, never the answer.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self.held: dict[Hashable, State] = {}  # by lane
        self.before: dict[Hashable, State] = {}  # by lane
        # This maps each idle state to its bytes. The most recently used state is last.
        self.idle: dict[State, int] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of all states. A joined cache counts once."""
        in_use = [*self.held.values(), *self.before.values()]
        caches = {id(cache): cache for state in in_use if (cache := state.kept_in) is not None}
        return sum(self.idle.values()) + sum(map(nbytes_of, caches.values()))

    def keep(self, state: State) -> None:
        """Keep a state that no lane holds, for texts that continue it."""
        state.part()
        self.idle[state] = state.nbytes
        if len(self.idle) > IDLE_LANES:
            del self.idle[next(iter(self.idle))]
        self.make_room()

    def release(self, lane: Hashable) -> None:
        """Release a lane. Its state stays while there is memory, for other texts."""
        self.before.pop(lane, None)
        state = self.held.pop(lane, None)
        if state is not None:
            self.keep(state)

    def make_room(self) -> None:
        """Drop idle states while the states hold more bytes than the limit."""
        nbytes = self.nbytes
        self.drop_idle(nbytes - self.cache_limit.room(self, nbytes))

    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all idle states, the least recently used state first."""
        while extra > 0 and self.idle:
            extra -= self.idle.pop(next(iter(self.idle)))

    def nearest(self, lane: Hashable, key: Hashable, text: list[int], limit: int) -> State:
        """Return the state with the most tokens that a text can continue, or an empty state.

        The state holds at most the first `limit` tokens of the text. Idle states are not searched
        if the lane's own state holds all but few of these tokens.
        """

        def fits(state: State) -> bool:
            return state.begins(key, text, limit)

        states = [self.held.get(lane), self.before.get(lane)]
        own = states[0]
        if own is None or not fits(own) or limit - len(own.tokens) >= SHORT_PREFIX:
            states += self.idle
        fitting = [state for state in states if state and fits(state)]
        return max(fitting, key=lambda state: len(state.tokens), default=State(key, []))

    def forget(self) -> None:
        """Drop all states."""
        self.held, self.before, self.idle = {}, {}, {}


def new_cache(model: Any) -> Cache:
    """Return the cache that transformers would use for a text, before the text is read.

    If `num_hidden_layers` is not the number of decoder layers, the cache creates each layer on
    first use.
    """
    counted = model.config.get_text_config().num_hidden_layers == layer_count(model)
    return DynamicCache(config=model.config) if counted else DynamicCache()


def nbytes_of(cache: Cache) -> int:
    """Return the bytes of all tensors of a cache."""
    return sum(tensor.nbytes for layer in cache.layers for tensor in tensors(vars(layer)))


def keeps_keys(layer: Any) -> bool:
    """Return True if a layer has keys and values, and makes new tensors with each token."""
    updates = getattr(type(layer), "update", None)
    return updates in _REPLACING and isinstance(layer.keys, Tensor)


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in an attribute of a layer."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)


class Joined:
    """The states of texts as the rows of one cache, for passes over one token of each text.

    Padding stands before the keys and values of shorter texts, and a mask hides it. States are
    joined and split by one rule: the first dimension of every tensor of a layer is the batch, and
    all else is equal. Raises ValueError for states that break the rule, and leaves them unchanged.
    """

    def __init__(self, states: Sequence[State]) -> None:
        for state in states:
            state.part()
        self.states = list(states)
        caches = [state.cache for state in states if state.cache is not None]
        if len(caches) < len(states):
            raise ValueError("a text has no state")
        each = zip(*map(_layers, caches), strict=True)
        self.cache = _with_layers(caches[0], [self._joined_layer(layers) for layers in each])
        lengths = torch.tensor([len(state.tokens) for state in states])
        keyed = any(keeps_keys(layer) for layer in _layers(self.cache))
        self._padding = (lengths.max() - lengths)[:, None]
        # Only keys and values have a length, so other states need no padding.
        self._padded = keyed and bool(self._padding.any())
        for state in states:
            state.cache, state.joined = None, self

    @property
    def longest(self) -> int:
        """The number of tokens of the longest text."""
        return max(len(state.tokens) for state in self.states)

    def inputs(self, places: bool = False) -> dict[str, Tensor]:
        """Return the arguments of the next pass: a mask [rows, positions], and positions [rows, 1].

        Without padding, return no arguments, because the model's defaults are right. With `places`,
        return the positions anyway, for a model that cannot count them.
        """
        at = {"position_ids": self.longest - self._padding}
        if not self._padded:
            return at if places else {}
        seen = torch.arange(self.longest + 1) >= self._padding
        return {"attention_mask": seen.long(), **at}

    def split(self) -> None:
        """Give each text its own cache again."""
        for row, state in enumerate(self.states):
            layers = [_row(layer, row, len(state.tokens)) for layer in _layers(self.cache)]
            state.cache, state.joined = _with_layers(self.cache, layers), None

    def _joined_layer(self, layers: Sequence[Any]) -> Any:
        """Return one layer that holds this layer of all texts."""
        joined, kept = copy.copy(layers[0]), [dict(vars(layer)) for layer in layers]
        if keeps_keys(joined):
            lengths = [len(state.tokens) for state in self.states]
            if [_width(joined, length) for length in lengths] != [*map(_kept, layers)]:
                raise ValueError("the keys of a layer do not fit the length of its text")
            for attributes in kept:
                for name in _KEYS:
                    missing = max(map(_kept, layers)) - attributes[name].shape[-2]
                    attributes[name] = pad(attributes[name], (0, 0, missing, 0))
                if _LENGTH in attributes:
                    attributes[_LENGTH] = max(lengths)
        vars(joined).update(_joined(kept))
        return joined


def groups(states: Sequence[State], most_padding: float) -> list[list[State]]:
    """Return groups of states of similar length, or one group if these states are joined already.

    The padding of a group takes at most `most_padding` bytes.
    """
    together = states[0].joined
    if together is not None and {*together.states} == {*states}:
        # These states were of similar length when they were joined.
        return [together.states]
    each = _bytes_per_token(states[0])
    found: list[list[State]] = []
    # The first state of each group is the longest, to which the others are padded.
    for state in sorted(states, key=lambda state: len(state.tokens), reverse=True):
        group = [*(found[-1] if found else ()), state]
        padding = sum(len(group[0].tokens) - len(other.tokens) for other in group)
        if found and padding * each <= most_padding:
            found[-1] = group
        else:
            found.append([state])
    return found


def _bytes_per_token(state: State) -> float:
    """Return an upper bound on the bytes that the keys and values of one more token take."""
    cache = state.cache if state.joined is None else state.joined.cache
    keyed = [layer for layer in cache.layers if keeps_keys(layer)] if cache is not None else []
    kept: list[Tensor] = [getattr(layer, name) for layer in keyed for name in _KEYS]
    return sum(tensor.nbytes / max(1, len(tensor) * tensor.shape[-2]) for tensor in kept)


def _kept(layer: Any) -> int:
    """Return the number of tokens whose keys a layer holds."""
    return int(layer.keys.shape[-2])


def _width(layer: Any, length: int) -> int:
    """Return the number of keys that a layer keeps of a text of `length` tokens."""
    # A window includes the next token, whose key is not cached yet.
    window = getattr(layer, _WINDOW, None)
    return length if window is None else min(length, window - 1)


def _joined(values: Sequence[Any]) -> Any:
    """Join one attribute of a layer over all texts."""
    first = values[0]
    if isinstance(first, Tensor) and first.ndim:
        if any(value.shape != first.shape for value in values) or len(first) != 1:
            raise ValueError("states differ in their shapes")
        return torch.cat(list(values))
    if isinstance(first, dict):
        return {key: _joined([value[key] for value in values]) for key in first}
    if any(value != first for value in values):
        raise ValueError("states differ in more than their tensors")
    return first


def _row(layer: Any, row: int, length: int) -> Any:
    """Return one text's layer, in memory of its own."""
    alone, attributes = copy.copy(layer), dict(vars(layer))
    if keeps_keys(layer):
        start = _kept(layer) - _width(layer, length)
        for name in _KEYS:
            attributes[name] = attributes[name][:, :, start:]
        if _LENGTH in attributes:
            attributes[_LENGTH] = length
    vars(alone).update(_split(attributes, row))
    return alone


def _split(value: Any, row: int) -> Any:
    """Return one text's part of an attribute of a layer."""
    if isinstance(value, Tensor) and value.ndim:
        return value[row : row + 1].clone()
    if isinstance(value, dict):
        return {key: _split(one, row) for key, one in value.items()}
    return value


def _layers(cache: Cache) -> list[Any]:
    return list(cache.layers)


def _with_layers(cache: Cache, layers: list[Any]) -> Cache:
    """Return a copy of a cache, with other layers."""
    made = copy.copy(cache)
    made.layers = layers
    return made


class StateSize:
    """An estimate of the bytes of a state: a fixed part, and a part for each token of its text.

    The estimate is learned from the first two lengths that are recorded. For a text that is longer
    than a window, it is too high.
    """

    def __init__(self) -> None:
        self._known: dict[int, int] = {}  # bytes by length

    def learn(self, length: int, nbytes: Callable[[], int]) -> None:
        """Record the bytes of a state of `length` tokens, until two lengths are known."""
        if len(self._known) < 2 and length not in self._known:
            self._known[length] = nbytes()

    def at(self, length: int) -> int:
        """Return the bytes of a state of `length` tokens; 0 before two lengths are known."""
        if len(self._known) < 2:
            return 0
        (short, small), (long, large) = sorted(self._known.items())
        slope = max(0.0, (large - small) / (long - short))
        return round(max(0.0, small - slope * short) + slope * length)
