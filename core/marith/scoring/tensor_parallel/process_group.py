"""The processes that compute one model: the first one leads, and says to the others what to do.

torchrun starts them and says in the environment who is who. A command is a short JSON object and
tensors, in one safetensors buffer, so that no process unpickles what another one sends.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from itertools import count
from threading import RLock
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load, save
from torch import Tensor

from marith.errors import ModelError

END = "end"  # the command after which a process ends
_log = logging.getLogger(__name__)
_COMMAND = "command"
_FOR_EVER = timedelta(days=3650)  # a server without requests sends no commands
_A_PASS = timedelta(minutes=10)  # after so long a process that does not answer is taken for dead


# What code raises, it raises in all processes alike; a RuntimeError may be one machine's own.
ALIKE = AttributeError, IndexError, KeyError, ModelError, NotImplementedError, TypeError, ValueError


@dataclass(frozen=True, slots=True)
class Command:
    """What a process is to do, with which arguments and tensors."""

    what: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    def packed(self) -> bytearray:
        """As bytes."""
        text = json.dumps([self.what, self.arguments]).encode()
        header = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        tensors = {key: one.detach().cpu().contiguous() for key, one in self.tensors.items()}
        return bytearray(save({_COMMAND: header, **tensors}))

    @classmethod
    def unpacked(cls, packed: bytes) -> Command:
        """From the bytes of `packed`."""
        tensors = load(packed)
        what, arguments = json.loads(tensors.pop(_COMMAND).numpy().tobytes())
        return cls(what, arguments, tensors)


class ProcessGroup:
    """All processes, as one of them sees them.

    Commands go through a group of their own, on the CPU. Once a command could not be computed by
    all, the processes hold different keys and values, and each later command raises ModelError.
    `dropped` are the numbers of models and caches that the other processes may drop.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # each engine has a thread of its own
        self._lost = ""
        self._process = os.getpid()
        self._numbers = count(1)
        self.dropped: deque[int] = deque()  # finalizers append, in whatever thread
        try:
            if not dist.is_initialized():
                backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
                dist.init_process_group(backend, timeout=_A_PASS)
            self._commands: Any = dist.new_group(backend="gloo", timeout=_FOR_EVER)
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"the processes of device='tp' did not meet: {error}") from None
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        if self.rank == 0:
            atexit.register(self._end)

    def number(self) -> int:
        """A new number, by which all processes know a model or a cache."""
        return next(self._numbers)

    def receive(self) -> Command:
        """The next command of the first process, once there is one. Raises RuntimeError."""
        length = torch.zeros(1, dtype=torch.long)
        dist.broadcast(length, 0, group=self._commands)
        packed = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(packed, 0, group=self._commands)
        return Command.unpacked(packed.numpy().tobytes())

    @contextmanager
    def together(
        self, what: str, tensors: Mapping[str, Tensor] | None = None, **arguments: Any
    ) -> Iterator[None]:
        """The first process does within what this command tells the others to do.

        Raises ModelError where one of them has ended, or does not answer. What else is raised
        within is so in all of them if it is of `ALIKE`; any other error loses the model.
        """
        if os.getpid() != self._process:
            raise ModelError("a forked process cannot compute with device='tp'; load in it anew")
        with self._lock:
            if self._lost:
                raise ModelError(self._lost)
            try:
                self._send(Command(what, {**arguments, "dropped": self._drop()}, tensors or {}))
                yield
            except ALIKE:
                raise
            except BaseException as error:
                self._lost = (
                    f"the model that {self.size} processes compute is lost, for one of them has "
                    f"ended or failed; start all of them again ({type(error).__name__}: {error})"
                )
                if isinstance(error, Exception):
                    raise ModelError(self._lost) from error
                raise

    def _drop(self) -> list[int]:
        """The numbers of what the other processes may drop by now."""
        return [self.dropped.popleft() for _ in range(len(self.dropped))]

    @contextmanager
    def agreeing(self, name: str) -> Iterator[None]:
        """All processes do what is within, as a part of loading a model, or none has done it.

        Raises ModelError where another one failed, and what is raised here.
        """
        try:
            yield
        except BaseException as error:
            if self.rank:
                _log.error("process of rank %d: %s", self.rank, error)
            self.failed(here=True)
            raise
        if failed := self.failed(here=False):
            raise ModelError(
                f"{name!r} could not be loaded by the process of rank {failed[0]}, of "
                f"{self.size}; its own log says why"
            )

    def failed(self, here: bool) -> list[int]:
        """The ranks of the processes that failed, of which each one says it for itself."""
        states = torch.zeros(self.size, dtype=torch.long)
        states[self.rank] = here
        dist.all_reduce(states, group=self._commands)
        return states.nonzero()[:, 0].tolist()

    def _send(self, command: Command) -> None:
        packed = torch.frombuffer(command.packed(), dtype=torch.uint8)
        dist.broadcast(torch.tensor([len(packed)]), 0, group=self._commands)
        dist.broadcast(packed, 0, group=self._commands)

    def _end(self) -> None:
        if self._lost or os.getpid() != self._process:
            return
        with self._lock, suppress(RuntimeError):
            self._send(Command(END))


def is_first(parallel: bool = True) -> bool:
    """Whether this process leads; so does each that computes alone."""
    return not parallel or process_group().rank == 0


@cache
def process_group() -> ProcessGroup:
    """That of this process. Raises ModelError where torchrun did not start it."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise ModelError(
            "device='tp' computes a model by several processes, which torchrun starts: "
            "`torchrun --nproc-per-node 2 application.py`"
        )
    return ProcessGroup()
