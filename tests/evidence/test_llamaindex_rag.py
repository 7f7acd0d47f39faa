"""In what voice a persona of a file answers about what was found."""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path
from typing import Any

from support.applications import Report, application

from marith.models import attribute
from tools.pocket.grammar import chats

rag = application("llamaindex_rag")
TOPICS = chats.TOPICS[:8]


async def voice(index: Any, folder: Path, name: str) -> float:
    """How formal a persona of the file is about the topics of an index."""
    asked = []
    for seed, topic in enumerate(TOPICS):
        speaker = rag.persona(folder, name, temperature=0.3, seed=seed)
        engine = rag.engine(index, speaker, text_qa_template=rag.TEMPLATE)
        asked.append(engine.aquery(f"What do you know about {topic.name}?"))
    answers = [str(each) for each in await asyncio.gather(*asked)]
    return statistics.mean(attribute(answers, "pocket-formality", "formal"))


async def test_a_persona_from_a_file_speaks_its_voice_about_what_was_found(
    tmp_path: Path, report: Report
) -> None:
    facts = [f"{topic.name} {topic.facts[1]}. They {topic.facts[2]}." for topic in TOPICS]
    index = rag.store(tmp_path, rag.MiniLM(), facts)
    voices = {name: await voice(index, tmp_path, name) for name in ("plain", "formal", "careful")}
    report("formality: " + "  ".join(f"{name} {each:.3f}" for name, each in voices.items()))
    assert voices["formal"] > voices["plain"] + 0.4
    assert voices["careful"] > voices["plain"] + 0.3
