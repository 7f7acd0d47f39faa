"""Print how long an event loop stands still at most while 32 chats are answered at once.

Run as `python -m tools.waiting`, on a machine with nothing else to do; it takes half a minute.
"""

import asyncio
import time

from llama_index.core.llms import ChatMessage

from llamaindex_marith import Marith

FORMAL = {"formal": "Speak formally."}
MODEL = Marith(formula="2*formal - M", terms=FORMAL, temperature=0.7, max_tokens=40)
QUESTIONS = [[ChatMessage(f"Tell me about number {i} and cats.")] for i in range(32)]


async def ticking(pauses: list[float]) -> None:
    """Notes how long each turn of the loop took."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        pauses.append(now - last)
        last = now


async def asked(seed: int) -> str:
    return str(await MODEL.achat(QUESTIONS[seed], seed=seed))


async def main() -> None:
    start = time.perf_counter()
    alone = [await asked(seed) for seed in range(len(QUESTIONS))]
    one_by_one = time.perf_counter() - start
    pauses: list[float] = []
    ticker = asyncio.create_task(ticking(pauses))
    start = time.perf_counter()
    together = await asyncio.gather(*map(asked, range(len(QUESTIONS))))
    at_once = time.perf_counter() - start
    ticker.cancel()
    late = sum(pause > 0.05 for pause in pauses)
    print(
        f"texts equal: {together == alone}   time: {at_once / one_by_one:.3f} of one by one   "
        f"longest pause: {1000 * max(pauses):.1f} ms   over 50 ms: {late} of {len(pauses)}"
    )


if __name__ == "__main__":
    for _ in range(4):
        asyncio.run(main())
