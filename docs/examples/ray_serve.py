"""Run replicas of `marith serve` on a cluster of Ray, with one engine each.

Every machine needs `pip install 'marith[serve,ray]'`. Ray's workers have the environment of `ray
start`: set MARITH_FILE and MARITH_API_KEYS there. From this folder,

    serve run ray_serve:app gpus=1 most=8

serves until you stop it. `python ray_serve.py` asks two replicas once.
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

HOSTS: tuple[str, ...] = ()  # host names of requests, besides localhost

# Requests with the same header x-session-id go to the same replica, which has cached their
# prompts. Requests without the header go to any replica.
BY_SESSION = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"


def made_on_replica() -> Starlette:
    """Return the application of one replica. Ray calls this on the replica's machine."""
    file = os.environ.get("MARITH_FILE")
    path = Path(file) if file else None
    return create_app(ServerSettings(path, keys=read_keys(None), hosts=HOSTS))


replica = serve.deployment(serve.ingress(made_on_replica)(), name="marith").options(
    max_ongoing_requests=64,  # further requests wait at the proxy
    graceful_shutdown_timeout_s=60,  # for running answers of a replica that stops
    request_router_config=RequestRouterConfig(request_router_class=BY_SESSION),
)


class Replicas(BaseModel):
    """The number of replicas, from `least` to `most`, and the `gpus` and `cpus` of each replica."""

    least: int = 1
    most: int = 4
    gpus: float = 0
    cpus: float = 1
    requests: float = 16  # concurrent requests of a replica before Ray starts another


def app(replicas: Replicas) -> serve.Application:
    """Return the application for `serve run`."""
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
