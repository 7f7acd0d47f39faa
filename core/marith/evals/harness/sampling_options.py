"""The harness's options, as the engine has them: how texts are drawn, and how many at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marith.errors import RequestError
from marith.request.sampling import Sampling
from marith.request.stop import Stop

AUTO = 64
LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
KNOWN = (
    "until", "do_sample", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", *LENGTHS,
)  # fmt: skip


def sampling_and_stop(
    options: Mapping[str, Any], default_length: int, seed: int
) -> tuple[Sampling, Stop]:
    """How the tokens of a text are drawn, and where it ends; greedy without an option to sample.

    Raises RequestError for an option that has no meaning here, and for a wrong value.
    """
    listed = ", ".join(KNOWN)
    for name, value in options.items():
        if name not in KNOWN:
            raise RequestError(f"no text is drawn with {name}={value!r}; there are {listed}")
    given = {name: value for name, value in options.items() if value is not None}
    temperature = float(given.get("temperature", 0.0))
    if "do_sample" in given:
        temperature = (temperature or 1.0) if given["do_sample"] else 0.0
    until = given.get("until", ())
    strings = (until,) if isinstance(until, str) else tuple(until)
    lengths = [int(given[name]) for name in LENGTHS if name in given]
    sampling = Sampling(
        temperature,
        given.get("top_k") or None,
        float(given.get("top_p", 1.0)),
        seed,
        float(given.get("min_p", 0.0)),
        float(given.get("repetition_penalty", 1.0)),
    )
    return sampling, Stop(lengths[0] if lengths else default_length, tuple(filter(None, strings)))


def requests_in_flight(batch_size: int | str | None, most: int | None) -> int:
    """How many requests are in flight for the harness's `batch_size`; 64 at most for "auto"."""
    if isinstance(batch_size, str) and batch_size.partition(":")[0] == "auto":
        return min(AUTO, most or AUTO)
    try:
        number = int(batch_size or 1)
    except ValueError:
        number = 0
    if number < 1:
        raise RequestError(f"batch_size is a whole number from 1 or 'auto', not {batch_size!r}")
    return number
