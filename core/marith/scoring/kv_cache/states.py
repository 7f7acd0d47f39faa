"""What a model whose layers keep states has read of one text, in a cache of transformers' own."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from marith.scoring.kv_cache.cache_limit import Keeper
from marith.scoring.kv_cache.lanes import IDLE_LANES, TAIL
from marith.scoring.kv_cache.layer_masks import layer_count

if TYPE_CHECKING:
    from marith.scoring.kv_cache.joined_states import Joined
    from marith.scoring.kv_cache.planned import Planned

# Updates that write nothing in place: what they had before stays as it was.
_REPLACING = (DynamicLayer.update, DynamicSlidingWindowLayer.update)


@dataclass(slots=True, eq=False)
class State:
    """What a model keeps of a text, in a cache of transformers' own kinds of layers.

    Texts of the same `key` may go on from it: it names the weights that computed it, and the salt
    of the text. Who goes on from a `snapshot` copies it. While it is `joined` with others, what is
    kept lies in their cache. With neither it is the state before a text.
    """

    key: Hashable
    tokens: list[int]
    cache: Cache | None = None
    snapshot: bool = False
    joined: Joined | None = None

    def copied(self, snapshot: bool = False) -> State:
        """One that goes on by itself; keys and values that nobody writes to are shared."""
        self.part()
        layers: list[Any] = self.cache.layers if self.cache else []
        keyed = [layer for layer in layers if keeps_keys(layer)]
        shared = {id(kept): kept for layer in keyed for kept in (layer.keys, layer.values)}
        cache = copy.deepcopy(self.cache, shared)
        return State(self.key, [*self.tokens], cache, snapshot)

    def part(self) -> None:
        """Have a cache of its own again."""
        if self.joined is not None:
            self.joined.split()

    def begins(self, key: Hashable, text: list[int], most: int) -> bool:
        """Whether a text goes on from it, at most `most` of whose tokens may be known."""
        length = len(self.tokens)
        return self.key == key and length <= most and self.tokens == text[:length]

    @property
    def kept_in(self) -> Cache | None:
        """The cache that holds it: its own, or that of all that it is joined with."""
        return self.cache if self.joined is None else self.joined.cache

    @property
    def nbytes(self) -> int:
        """What its tensors weigh; of joined ones, its part."""
        if self.joined is not None:
            return weight_of(self.joined.cache) // len(self.joined.states)
        return weight_of(self.cache) if self.cache else 0


class KeptStates(Keeper):
    """The states of a model's lanes, and those that no lane holds, for texts that go on from them.

    A lane holds one, and may have another of before its last drafts. The others stay while all that
    share a `cache_limit` hold no more than that, the last used the longest; those of lanes in use
    stay whatever they weigh. Changes state, never an answer.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self.held: dict[Hashable, State] = {}  # by lane
        self.before: dict[Hashable, State] = {}  # by lane
        self.idle: dict[State, int] = {}  # what each weighs, the last used last

    @property
    def nbytes(self) -> int:
        """What all weigh; those that are joined are weighed once."""
        in_use = [*self.held.values(), *self.before.values()]
        caches = {id(cache): cache for state in in_use if (cache := state.kept_in) is not None}
        return sum(self.idle.values()) + sum(map(weight_of, caches.values()))

    def keep(self, state: State) -> None:
        """Let texts go on from a state that no lane holds."""
        state.part()
        self.idle[state] = state.nbytes
        if len(self.idle) > IDLE_LANES:
            del self.idle[next(iter(self.idle))]
        self.make_room()

    def release(self, lane: Hashable) -> None:
        """The lane's state stays while there is memory for it: another text may continue it."""
        self.before.pop(lane, None)
        state = self.held.pop(lane, None)
        if state is not None:
            self.keep(state)

    def make_room(self) -> None:
        """States that no lane holds go while all hold more than the limit."""
        weight = self.nbytes
        self.drop_idle(weight - self.cache_limit.room(self, weight))

    def drop_idle(self, extra: int) -> None:
        """Drop states that no lane holds, the longest unused first, of so many bytes or all."""
        while extra > 0 and self.idle:
            extra -= self.idle.pop(next(iter(self.idle)))

    def nearest(self, lane: Hashable, key: Hashable, text: list[int], most: int) -> State:
        """The longest state from which a text goes on, the lane's own if it lacks little."""

        def fits(state: State) -> bool:
            return state.begins(key, text, most)

        states = [self.held.get(lane), self.before.get(lane)]
        own = states[0]
        if own is None or not fits(own) or most - len(own.tokens) >= TAIL:
            states += self.idle
        fitting = [state for state in states if state and fits(state)]
        return max(fitting, key=lambda state: len(state.tokens), default=State(key, []))

    def forget(self) -> None:
        """Drop all states."""
        self.held, self.before, self.idle = {}, {}, {}


class StateSize:
    """What a state weighs by the length of its text: a part that is fixed, and a part a token.

    Learned from the first two lengths; beyond a window it is less.
    """

    def __init__(self) -> None:
        self._known: list[tuple[int, int]] = []  # lengths, and bytes

    def learn(self, state: State) -> None:
        """Take in what a state weighs, while that is news."""
        if len(self._known) < 2 and len(state.tokens) not in dict(self._known):
            self._known.append((len(state.tokens), state.nbytes))

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes of states these texts take at most, a snapshot of each included."""
        return 2 * sum(map(self.at, (text.length for text in texts)))

    def at(self, length: int) -> int:
        """The bytes of a state of so many tokens; 0 before two lengths are known."""
        if len(self._known) < 2:
            return 0
        (short, least), (long, most) = sorted(self._known)
        slope = max(0.0, (most - least) / (long - short))
        return round(max(0.0, least - slope * short) + slope * length)


def new_cache(model: Any) -> Cache:
    """What transformers would keep of a text, before it is read.

    Layers are made one by one where the configuration counts others than those that decode.
    """
    counted = model.config.get_text_config().num_hidden_layers == layer_count(model)
    return DynamicCache(config=model.config) if counted else DynamicCache()


def weight_of(cache: Cache) -> int:
    """The bytes of all tensors of a cache."""
    return sum(tensor.nbytes for layer in cache.layers for tensor in tensors(vars(layer)))


def keeps_keys(layer: Any) -> bool:
    """Whether a layer has keys and values, and makes new ones with each token."""
    updates = getattr(type(layer), "update", None)
    return updates in _REPLACING and isinstance(layer.keys, Tensor)


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in an attribute of a layer."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)
