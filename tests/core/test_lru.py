"""Least recently used values are dropped at a limit of bytes; values in use are never lost."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, ref

import pytest
from support.held_passes import becomes_true, endless_engine, loaded_objects

from marith import Request, Stop
from marith.formula.tree.terms import NGram
from marith.lru import WeightedLRU
from marith.scoring.registry import Registry
from marith.scoring.weights import lora_files as scoring_adapters
from marith.testing import tiny_classifier, tiny_model, tiny_tokenizer

# What peft, which makes the adapters here, asks of a model that transformers deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


class Thing:
    """What can be held weakly."""


def test_the_longest_unused_go_first_and_what_someone_holds_is_found() -> None:
    recent, alive = WeightedLRU(10), WeakValueDictionary[str, Thing]()

    def use(name: str, weight: int) -> None:
        thing = alive.get(name)
        if thing is None:
            thing = alive[name] = Thing()
        recent.use(thing, weight)

    use("a", 4)
    use("b", 4)
    use("a", 4)
    use("c", 4)
    assert set(alive) == {"a", "c"}
    held = alive["a"]
    use("d", 4)
    use("e", 4)
    assert set(alive) == {"a", "d", "e"}
    assert alive["a"] is held
    use("f", 11)  # alone too heavy: others need not go
    assert set(alive) == {"a", "d", "e"}


def test_a_value_takes_the_place_of_another_of_its_name() -> None:
    recent, first, second = WeightedLRU(10), Thing(), Thing()
    recent.use(first, 4, "file")
    recent.use(second, 4, "file")
    recent.use(Thing(), 4)
    first_is, second_is = ref(first), ref(second)
    del first, second
    assert first_is() is None
    assert second_is() is not None


def test_many_threads_may_use_it_at_once() -> None:
    recent, things = WeightedLRU(50), [Thing() for _ in range(100)]

    def work(start: int) -> None:
        for i in range(2000):
            recent.use(things[(start + 7 * i) % 100], 1 + i % 9)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    weights = [weight for _, weight, _ in recent._kept.values()]
    assert sum(weights) == recent._weight <= 50


def test_n_grams_named_once_are_forgotten() -> None:
    with endless_engine(2000, loaded_bytes=40_000) as one:
        fitted: list[ref[Any]] = []
        for i in range(60):
            texts = tuple(f"{'a b c d ' * 20}{'e ' * i}" for _ in range(3))
            terms = {"counted": NGram(texts=texts)}
            fitted += loaded_objects(one, Request("a b", "counted", terms))[1:]
            one.generate("a b", "M + counted", terms, stop=Stop(2))
        assert len(fitted) == 60
        assert becomes_true(lambda: sum(each() is not None for each in fitted) < 12)
        weights = [counts.nbytes for each in fitted if (counts := each()) is not None]
        assert min(weights) >= 4_000
        assert sum(weights) <= 40_000


def adapters(folder: Path, count: int) -> list[str]:
    from peft import LoraConfig, get_peft_model

    names = []
    for i in range(count):
        config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights="gaussian")
        get_peft_model(tiny_model(seed=1), config).save_pretrained(folder / str(i))
        names.append(str(folder / str(i)))
    return names


@pytest.mark.parametrize("kind", ["adapters", "models", "classifiers"])
def test_adapters_and_checkpoints_named_once_are_forgotten(tmp_path: Path, kind: str) -> None:
    if kind == "adapters":
        formulas = [f"prompted(adapter={name!r})" for name in adapters(tmp_path, 4)]
    else:
        formulas = []
        for i in range(4):
            where = str(tmp_path / str(i))
            model = tiny_model(seed=i) if kind == "models" else tiny_classifier(seed=i)
            model.save_pretrained(where)
            tiny_tokenizer().save_pretrained(where)
            said = f"prompted(model={where!r})" if kind == "models" else f"classifier({where!r})"
            formulas.append(f"M + {said}")
    gc.collect()
    gc.disable()  # nothing waits for a search for garbage
    try:
        with endless_engine(2000, loaded_bytes=1) as one:
            [base], texts, kept = loaded_objects(one, Request("a b")), [], []
            for formula in formulas:
                request = Request("a b", formula, stop=Stop(3))
                ticket = one.submit(request)
                kept += [each for each in loaded_objects(one, request) if each is not base]
                texts.append(ticket.result(60).tokens)
                del ticket
            assert len(kept) == 4
            assert becomes_true(lambda: sum(each() is not None for each in kept) <= 1)
            assert loaded_objects(one, Request("a b")) == [base]
            again = [one.generate("a b", formula, stop=Stop(3)).tokens for formula in formulas]
            assert [len(tokens) for tokens in again] == [len(tokens) for tokens in texts]
    finally:
        gc.enable()


def test_what_a_request_in_flight_uses_stays_and_is_loaded_once(tmp_path: Path) -> None:
    first, *others = adapters(tmp_path, 4)
    with endless_engine(2000, loaded_bytes=1) as one:
        request = Request("a b", f"prompted(adapter={first!r})", stop=Stop(1500))
        running = one.submit(request)
        chunks = iter(running)
        next(chunks)
        [held] = loaded_objects(one, request)[1:]
        for name in others:
            one.generate("a b", f"prompted(adapter={name!r})", stop=Stop(2))
        one.generate("c", f"prompted(adapter={first!r})", stop=Stop(2))
        assert loaded_objects(one, request)[1:] == [held]
        assert held() is not None
        next(chunks)
        running.cancel()


def test_the_adapter_of_a_likelihood_is_held_as_any_other(tmp_path: Path) -> None:
    first, *others = adapters(tmp_path, 3)
    formula = f"M + posterior(prompted(adapter={first!r}), M)"
    with endless_engine(2000, loaded_bytes=1) as one:
        running = one.submit(Request("a b", formula, stop=Stop(600)))
        chunks = iter(running)
        next(chunks)
        for name in others:
            one.generate("a b", f"prompted(adapter={name!r})", stop=Stop(2))
        assert sum(len(chunk.tokens) for chunk in chunks) > 500


def test_what_is_forgotten_while_a_request_is_read_is_loaded_on_no_thread_of_a_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, other), readers = adapters(tmp_path, 2), []
    read = scoring_adapters.read

    def recorded(*args: Any) -> Any:
        readers.append(threading.current_thread().name)
        return read(*args)

    monkeypatch.setattr(scoring_adapters, "read", recorded)
    keep = Registry._keep

    def forgetting(registry: Any, *given: Any) -> None:
        """As if another request needed the room just now."""
        registry._recent._kept.clear()
        registry.base.runner.lanes.forget()
        keep(registry, *given)

    with endless_engine(2000, loaded_bytes=2**24) as one:
        for each in (name, other):
            one.generate("a b", f"prompted(adapter={each!r})", stop=Stop(2))
        monkeypatch.setattr(Registry, "_keep", forgetting)
        one.generate("a b", f"prompted(adapter={name!r})", stop=Stop(2))
    assert readers == ["marith-load"] * 2


def test_objects_within_the_limit_are_loaded_once(tmp_path: Path) -> None:
    tiny_model(seed=3).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    formula = f"M + prompted(model={str(tmp_path)!r}) + ngram(texts=('a b c',))"
    with endless_engine(2000, loaded_bytes=2**24) as one:
        one.generate("a b", formula, stop=Stop(2))
        before = loaded_objects(one, Request("a b", formula))
        one.generate("a b", formula, stop=Stop(2))
        assert loaded_objects(one, Request("a b", formula)) == before
        assert len(before) == 4  # the scorers of three kinds of terms, and the counts
        assert None not in [each() for each in before]
