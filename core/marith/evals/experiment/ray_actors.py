"""Texts of an experiment by actors of a cluster of Ray, each with an engine of its own."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any

from marith.errors import MarithError, ModelError, RequestError, fault
from marith.evals.experiment.experiment import Experiment, TextTask
from marith.evals.experiment.text_generation import IN_FLIGHT, EngineTexts, load_engine
from marith.evals.experiment.texts import Text
from marith.evals.reporting.numbers import counted
from marith.evals.reporting.progress import print_notes
from marith.formula.text.calls import CALLS

RESTARTS = 3  # of an actor whose process ends


class TextActor:
    """An engine in a process of Ray's, and the texts that it generates."""

    def __init__(self, experiment: Experiment, modules: list[str], path: list[str]) -> None:
        self._failure: MarithError | None = None
        try:  # an error of a constructor would reach the caller as text alone
            sys.path.extend(folder for folder in path if folder not in sys.path)
            for module in modules:
                import_module(module)
            self._source = EngineTexts(experiment, load_engine(experiment))
        except Exception as error:
            self._failure = fault(error)

    def loaded(self) -> None:
        """Return where it has an engine. Raises MarithError."""
        if self._failure is not None:
            raise self._failure

    def text(self, task: TextTask) -> Text:
        """One text. Raises MarithError."""
        self.loaded()
        return self._source.submit(task)()


class RayTexts:
    """Texts by actors, which are asked in turn. Keeps state: whose turn it is."""

    def __init__(self, actors: list[Any]) -> None:
        self._turns = cycle(actors)
        self.concurrency = IN_FLIGHT * len(actors)

    def submit(self, task: TextTask) -> Callable[[], Text]:
        """Begin a text."""
        return partial(result_of, next(self._turns).text.remote(task))


@contextmanager
def ray_texts(experiment: Experiment) -> Iterator[RayTexts]:
    """As many actors as the experiment asks for, on the cluster of RAY_ADDRESS, or on a new one.

    An actor has a GPU where the cluster has any and the device is not cpu, and a core where not.
    Raises RequestError where the cluster has too few of them, ModelError where there is none.
    """
    import ray

    count = experiment.ray or 0
    began = not ray.is_initialized()
    try:
        if began:
            _join()
        needs = needs_of(ray.cluster_resources(), count, experiment.device)
        print_notes(waiting_notes(ray.available_resources(), count, needs))
        options = {"max_restarts": RESTARTS, "max_task_retries": RESTARTS, **needs}
        make = ray.remote(TextActor).options(max_concurrency=IN_FLIGHT, **options)
        given = replace(experiment, measures=(), ray=None), own_modules(), sys.path
        actors = [make.remote(*given) for _ in range(count)]
        for loaded in [actor.loaded.remote() for actor in actors]:  # texts are timed after that
            result_of(loaded)
        yield RayTexts(actors)
    finally:
        if began:
            ray.shutdown()


def _join() -> None:
    """Begin to use a cluster. Raises ModelError."""
    import ray

    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:  # a ConnectionError is an OSError
        raise ModelError(f"there is no cluster of Ray: {error}") from None


def needs_of(resources: dict[str, float], count: int, device: str | None) -> dict[str, float]:
    """What one of so many actors takes. Raises RequestError."""
    with_gpus = resources.get("GPU", 0) > 0 and device != "cpu"
    what, word = ("GPU", "GPU") if with_gpus else ("CPU", "core")
    most = int(resources.get(what, 0))
    if count > most:
        problem = f"the cluster has {counted(most, word)}, and --ray asks for {count}"
        raise RequestError(f"{problem}, one for each actor")
    return {"num_gpus": 1} if with_gpus else {"num_cpus": 1}


def waiting_notes(free: dict[str, float], count: int, needs: dict[str, float]) -> list[str]:
    """What is printed where some of so many actors wait for what others of the cluster use."""
    what, word = ("GPU", "GPU") if "num_gpus" in needs else ("CPU", "core")
    free_count = int(free.get(what, 0))
    if free_count >= count:
        return []
    has = f"{counted(free_count, word)} of the cluster {'is' if free_count == 1 else 'are'} free"
    return [f"{has} now: the texts begin once each of {counted(count, 'actor')} has one"]


def own_modules() -> list[str]:
    """The modules of functions that formulas call and that are not marith's."""
    modules = {inspect.unwrap(call).__module__ for call in CALLS.values()}
    return sorted(name for name in modules if name.partition(".")[0] not in ("marith", "__main__"))


def result_of(reference: Any) -> Any:
    """What an actor returns, once it is there. Raises MarithError."""
    import ray
    from ray.exceptions import ActorDiedError, RayError, RayTaskError

    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise fault(error.cause) from None
    except ActorDiedError as error:
        problem = f"an actor of Ray ended, and is made anew at most {RESTARTS} times: {error}"
        raise ModelError(problem) from None
    except RayError as error:  # such as a node that cannot be reached, or has no memory left
        raise ModelError(f"an actor of Ray failed: {error}") from None
