"""Replicas of `marith serve` on a cluster of Ray, one engine each.

Needs `pip install 'marith[serve,ray]'` on every machine. Ray's workers have the environment of
`ray start`: set MARITH_FILE and MARITH_API_KEYS there. From this folder

    serve run ray_serve:app gpus=1 most=8

serves until it is interrupted; `python ray_serve.py` asks two replicas once.
"""

import json
import os
from pathlib import Path
from urllib.request import Request, urlopen

import ray
from pydantic import BaseModel
from ray import serve
from ray.serve.config import RequestRouterConfig
from starlette.applications import Starlette

from marith.serving.app import create_app
from marith.serving.server_settings import ServerSettings, read_keys

HOSTS: tuple[str, ...] = ()  # names that clients ask under, other than those of the loopback

# The header x-session-id of a request leads to the same replica, where its prompts are cached.
# A request without it goes to any.
BY_SESSION = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"


def made_on_replica() -> Starlette:
    """The application of one replica. Ray calls this on its machine: there the models load."""
    file = os.environ.get("MARITH_FILE")
    path = Path(file) if file else None
    return create_app(ServerSettings(path, keys=read_keys(None), hosts=HOSTS))


replica = serve.deployment(serve.ingress(made_on_replica)(), name="marith").options(
    max_ongoing_requests=64,  # others wait in front of the replicas
    graceful_shutdown_timeout_s=60,  # for answers that run when a replica is taken away
    request_router_config=RequestRouterConfig(request_router_class=BY_SESSION),
)


class Replicas(BaseModel):
    """From `least` to `most` replicas, each with so many GPUs and processor cores."""

    least: int = 1
    most: int = 4
    gpus: float = 0
    cpus: float = 1
    requests: float = 16  # that a replica has at once before there is another


def app(replicas: Replicas) -> serve.Application:
    """What `serve run` serves."""
    scaling = {
        "min_replicas": replicas.least,
        "max_replicas": replicas.most,
        "target_ongoing_requests": replicas.requests,
    }
    needs = {"num_gpus": replicas.gpus, "num_cpus": replicas.cpus}
    return replica.options(autoscaling_config=scaling, ray_actor_options=needs).bind()


def main() -> None:
    ray.init(include_dashboard=False, log_to_driver=False)
    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    serve.run(app(Replicas(least=2, most=2, gpus=gpus)))
    body = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 12, "seed": 1}
    for session in ("a", "b"):
        headers = {"content-type": "application/json", "x-session-id": session}
        url = "http://127.0.0.1:8000/v1/chat/completions"
        with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:
            print(json.load(answer)["choices"][0]["message"]["content"])
    serve.shutdown()


if __name__ == "__main__":
    main()
