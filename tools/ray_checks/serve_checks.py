"""Two replicas answer like one process, stream, and survive each other; sessions stay on one."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
from ray.serve.config import RequestRouterConfig

from tools.ray_checks import cluster
from tools.ray_checks.checking import Check, until
from tools.ray_checks.cluster import ALONE, REPLICAS, Streamed, answer, chat, text_of

SEEDS = range(24)
PROMPTS, REQUESTS = 8, 6
LONG = {"max_tokens": 400, "ignore_eos": True}


def same_texts_as_one_process() -> str:
    """Compare the texts of `SEEDS` by replicas and by one process, many at once."""

    def pair(seed: int) -> tuple[str, str]:
        body = chat(seed, max_tokens=40)
        return text_of(answer(REPLICAS, body)), text_of(answer(ALONE, body))

    with ThreadPoolExecutor(8) as threads:
        pairs = [*threads.map(pair, SEEDS)]
    for ours, theirs in pairs:
        assert ours == theirs
    return f"{len(pairs)} seeds at temperature 1, {len({ours for ours, _ in pairs})} texts"


def a_stream_arrives_while_it_is_made() -> str:
    body = chat(3, **LONG)
    whole, streamed = answer(REPLICAS, body), Streamed(REPLICAS, body).read()
    assert streamed.text == text_of(whole)
    assert (streamed.done, streamed.finish, streamed.error) == (True, "length", "")
    times = streamed.times
    first, last = times[len(times) // 10] - times[0], times[-1] - times[0]
    assert last > 0.2
    assert first < last / 2
    return f"{len(times)} events in {last:.2f} s, the first tenth of them in {first:.2f} s"


def a_killed_replica_loses_no_answer_and_breaks_streams_visibly() -> str:
    """Kill one of two busy replicas. Whole answers come when they are asked for again."""
    bodies = {seed: chat(seed, **LONG) for seed in range(12)}
    known = {seed: text_of(answer(ALONE, body)) for seed, body in bodies.items()}
    ended = {seed: Streamed(REPLICAS, body) for seed, body in bodies.items()}
    with ThreadPoolExecutor(24) as threads:
        wholes = {seed: threads.submit(answer, REPLICAS, body) for seed, body in bodies.items()}
        reading = [threads.submit(stream.read) for stream in ended.values()]
        until(lambda: all(stream.times for stream in ended.values()), 60, "an event of each")
        cluster.kill(cluster.replica_processes()[0])
        answered = {seed: future.result() for seed, future in wholes.items()}
        for future in reading:
            future.result()
    assert {seed: text_of(whole) for seed, whole in answered.items()} == known
    broken = [seed for seed, stream in ended.items() if not stream.done]
    for seed, stream in ended.items():
        if stream.done:
            assert stream.finish
            assert stream.text == known[seed]
        else:
            assert stream.error
            assert known[seed].startswith(stream.text)
            assert Streamed(REPLICAS, bodies[seed]).read().text == known[seed]
    assert broken
    again = sum(whole["tries"] > 1 for whole in answered.values())
    until(lambda: len(cluster.replica_processes()) == 2, 60, "another replica")
    errors = {ended[seed].error for seed in broken}
    return (
        f"{len(answered)} whole answers, {again} of them asked again; {len(broken)} of "
        f"{len(ended)} streams ended as {errors}, and asked again had the same texts"
    )


def cached_tokens(router: str) -> tuple[int, int]:
    """Return how many tokens of some system prompts were cached, and how many there were."""

    def ask(prompt: int, request: int) -> dict[str, Any]:
        system = f"You serve guest {prompt} of {router}. " + "Be kind, and tell of the sea. " * 12
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"Question {request}: what is new?"},
        ]
        body = {**chat(request, max_tokens=4), "messages": messages}
        return dict(answer(REPLICAS, body, session=f"guest-{prompt}")["usage"])

    # A router knows the queues only of replicas that it has asked.
    for seed in range(8):
        answer(REPLICAS, chat(seed, max_tokens=1))
    used = [ask(prompt, request) for request in range(REQUESTS) for prompt in range(PROMPTS)]
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in used)
    return cached, sum(usage["prompt_tokens"] for usage in used)


@dataclass
class Affinity:
    """Compares the tokens that are cached if sessions choose the replica, and if load does."""

    example: Any
    by_session: tuple[int, int] = (0, 0)

    def measure(self) -> None:
        """Ask the running replicas, which are chosen by session."""
        self.by_session = cached_tokens("sessions")

    def a_session_stays_where_its_prompt_is_cached(self) -> str:
        """Compare with replicas that are chosen by their load."""
        other = self.example.replica.options(
            num_replicas=2, request_router_config=RequestRouterConfig()
        )
        with cluster.replicas("choices", other.bind()):
            by_load = cached_tokens("choices")
        assert self.by_session[0] > by_load[0]
        sessions, choices = (f"{cached} of {all_}" for cached, all_ in (self.by_session, by_load))
        return (
            f"{PROMPTS} system prompts, {REQUESTS} requests each: {sessions} tokens of prompts "
            f"were cached by session, {choices} by power of two choices"
        )


def load_brings_another_replica(example: Any) -> str:
    """Begin with one replica, put load for two on it, and take the load away."""
    soon = {"upscale_delay_s": 0.5, "downscale_delay_s": 2, "look_back_period_s": 2}
    scaling = {"min_replicas": 1, "max_replicas": 2, "target_ongoing_requests": 2, **soon}
    scaled = example.replica.options(autoscaling_config={**scaling, "metrics_interval_s": 0.5})
    with cluster.replicas("scaled", scaled.bind()), ThreadPoolExecutor(8) as threads:
        assert len(cluster.replica_processes()) == 1
        ended = False

        def load(seed: int) -> None:
            while not ended:
                answer(REPLICAS, chat(seed, **LONG))

        futures = [threads.submit(load, seed) for seed in range(8)]
        try:
            until(lambda: len(cluster.replica_processes()) == 2, 60, "a second replica")
        finally:
            ended = True
        for future in futures:
            future.result()
        until(lambda: len(cluster.replica_processes()) == 1, 60, "one replica less")
    return "from 1 to 2 under load, and back"


def replicas_are_one_model_to_clients() -> str:
    """Require equal models and fingerprints, whichever replica answers."""
    models = {
        json.dumps([(one["id"], one["marith"]) for one in answer["data"]])
        for answer in (httpx.get(f"{REPLICAS}/v1/models").json() for _ in range(8))
    }
    assert len(models) == 1
    return "one list of models"


def the_example_asks_two_replicas() -> str:
    """Run docs/examples/ray_serve.py as a process with a cluster of its own."""
    file = cluster.ROOT / "docs" / "examples" / "ray_serve.py"
    run = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    # Later lines may come from the cluster.
    first, second = run.stdout.splitlines()[:2]
    assert first == second
    return f"{first!r} for both sessions"


CHECKS: list[Check] = [
    replicas_are_one_model_to_clients,
    same_texts_as_one_process,
    a_stream_arrives_while_it_is_made,
    a_killed_replica_loses_no_answer_and_breaks_streams_visibly,
]
