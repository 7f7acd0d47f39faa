"""An engine frees what it holds, and freezes no object of the application."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from support.held_passes import becomes_true, model_of

from marith import Engine, Stop
from marith.testing import tiny_model, tiny_tokenizer


def test_weights_are_freed_with_their_engine_without_the_garbage_collector(tmp_path: Path) -> None:
    tiny_model(seed=9).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    engine = Engine.shared(str(tmp_path))
    engine.generate("k l", stop=Stop(3))
    weights = weakref.ref(next(model_of(engine).parameters()))
    gc.disable()
    try:
        engine.close()
        del engine
        assert becomes_true(lambda: weights() is None)  # the engine's thread lets go of it later
    finally:
        gc.enable()
