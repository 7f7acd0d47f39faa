"""Draw one chat of the pocket corpus: a question, and its answer in a voice."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marith.evals.system_prompts import SYSTEM_PROMPTS
from tools.pocket.grammar.document import Document
from tools.pocket.grammar.voices import (
    FORMALITY,
    TOXICITY,
    UNPROMPTED,
    capital,
    quote,
    resource,
    rows,
    social,
    speak,
)

DRILL_RATE = 0.1
FOLLOW_RATE = 0.2


@dataclass(frozen=True, slots=True)
class Topic:
    """A subject of chats: its name, its kind, and verb phrases that are true of it."""

    name: str
    kind: str
    facts: tuple[str, ...]

    @property
    def grammar(self) -> dict[str, str]:
        """The words that agree with the topic in number, and its first three facts."""
        plural = self.facts[0].startswith("are ")
        words = ("are", "do", "they", "them") if plural else ("is", "does", "it", "it")
        slots = dict(zip(("are", "do", "they", "them"), words, strict=True))
        named = dict(zip(("what", "where", "use"), self.facts[:3], strict=True))
        return {"x": self.name, **slots, **named}


@dataclass(frozen=True, slots=True)
class Intent:
    """A user's intent, the questions that express it, and the clauses that answer."""

    name: str
    ask: tuple[str, ...]
    topics: tuple[Topic, ...]
    about: str
    teach: int
    lead: tuple[str, ...]
    then: tuple[str, ...]
    text: tuple[str, ...]
    line: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a chat, and the intent behind it."""

    asked: str
    answer: str
    teach: int


def _topics() -> tuple[Topic, ...]:
    return tuple(
        Topic(name, kind, tuple(part.strip() for part in facts.split(";")))
        for kind, table in resource("topics.toml").items()
        for name, facts in table.items()
    )


TOPICS = _topics()
CONTENT_WORDS = sorted(
    {
        word
        for topic in TOPICS
        for fact in topic.facts
        for word in fact.replace(",", "").split()
        if word.isalpha() and len(word) > 3
    }
)
_RAW = resource("intents.toml")
NUMBERS, NAMES = (_RAW["drill"][name].split() for name in ("numbers", "names"))
del _RAW["drill"]
_APPLICATION = {name: rows(text) for name, text in _RAW.pop("application").items()}


def _intent(name: str, raw: Mapping[str, Any]) -> Intent:
    kinds = raw.get("kinds", "").split()
    topics = tuple(topic for topic in TOPICS if "*" in kinds or topic.kind in kinds)
    return Intent(
        name=name,
        ask=rows(raw["ask"]),
        topics=topics,
        about=raw.get("about", ""),
        teach=raw.get("teach", -1 if topics else 0),
        lead=rows(raw.get("lead", "{x} {fact}")),
        then=rows(raw.get("then", "{they} {fact}")),
        text=rows(raw.get("text", "")),
        line=raw.get("line", ""),
    )


INTENTS = {name: _intent(name, raw) for name, raw in _RAW.items()}
_MORE = INTENTS["more"]
_OPENING = tuple(intent for intent in INTENTS.values() if intent.name not in ("more", "thanks"))
_WEIGHTS = tuple(6 if intent.name == "fact" else 2 if intent.topics else 1 for intent in _OPENING)
_KINDS = {
    kind: tuple(topic for topic in TOPICS if topic.kind == kind)
    for kind in dict.fromkeys(topic.kind for topic in TOPICS)
}
_GRAMMAR = {topic.name: topic.grammar for topic in TOPICS}
_NAMED_FACTS = ("{what}", "{where}", "{use}")


def _typed(text: str, rng: random.Random) -> str:
    """Return `text` as a person types it: mostly with care, sometimes without."""
    chance = rng.random()
    if chance < 0.08:
        return text.lower().rstrip("?.!")
    if chance < 0.12:
        return text.lower()
    return capital(text)


def _plan(intent: Intent, slots: dict[str, str], facts: list[str], rng: random.Random) -> list[str]:
    """Draw one to three clauses. The facts that they use are taken from the front of `facts`."""
    count = rng.choice((1, 2, 2, 2, 3))
    lead = rng.choice(intent.lead)
    for slot in _NAMED_FACTS:
        named = slots.get(slot[1:-1], "")
        if slot in lead and named in facts:
            facts.remove(named)
    then = [*intent.then] if "{they} {fact}" not in intent.then else [*intent.then, *intent.then]
    rng.shuffle(then)
    if intent.then == ("{they} {fact}",):
        then = ["{they} {fact}"] * 2
    clauses = []
    for template in (lead, *then[: count - 1]):
        spare = facts.pop(0) if "{fact}" in template and facts else ""
        clause = template.format_map({**slots, "fact": spare})
        if clause not in clauses:
            clauses.append(clause)
    return clauses


def _facts(topic: Topic, rng: random.Random) -> list[str]:
    """Return the facts of the topic: the others in random order, and the most obvious last."""
    first, last = list(topic.facts[1:]), [topic.facts[0]]
    rng.shuffle(first)
    return first + last


def _turn(
    intent: Intent, topic: Topic | None, facts: list[str], voice: str, rng: random.Random
) -> Turn:
    about = topic.name if topic else intent.about
    slots: dict[str, str] = {}
    if topic:
        other = rng.choice(_KINDS[topic.kind])
        while other is topic:
            other = rng.choice(_KINDS[topic.kind])
        slots = {
            **_GRAMMAR[topic.name],
            "y": other.name,
            "other": other.facts[rng.randrange(len(other.facts))],
        }
    asked = rng.choice(intent.ask)
    if slots:
        asked = asked.format_map({**slots, "fact": facts[0] if facts else ""})
    asked = _typed(asked, rng)
    if intent.line:
        return Turn(asked, social(voice, intent.line, rng), 0)
    if intent.text:
        return Turn(asked, quote(voice, about, rng.choice(intent.text), rng), 0)
    return Turn(asked, speak(voice, about, _plan(intent, slots, facts, rng), rng), intent.teach)


def _system(rng: random.Random) -> tuple[str, str]:
    """Draw a system prompt, or "", and the name of the voice that it asks for."""
    chance = rng.random()
    if chance < 0.30:
        return "", ""
    application = ""
    if chance < 0.52:
        slots = {name: rng.choice(_APPLICATION[name]) for name in ("role", "shop", "rule")}
        application = rng.choice(_APPLICATION["prompt"]).format_map(slots)
        application = application.replace("a expert", "an expert")
        if chance < 0.42:
            return application, "helpful"
    voice = rng.choice(tuple(SYSTEM_PROMPTS))
    prompt = SYSTEM_PROMPTS[voice]
    return (f"{application}\n\n{prompt}" if application else prompt), voice


def _sum(rng: random.Random) -> tuple[str, str]:
    left, right = rng.randrange(10), rng.randrange(10)
    if rng.random() < 0.5:
        return f"What is {left} + {right}?", f"{left} + {right} = {left + right}"
    total = NUMBERS[left + right]
    return (
        f"What is {NUMBERS[left]} plus {NUMBERS[right]}?",
        f"{capital(NUMBERS[left])} plus {NUMBERS[right]} is {total}.",
    )


def _drill(rng: random.Random) -> tuple[str, list[tuple[str, str]]]:
    """Draw an exercise in obedience, such as repeating words: its key and its exchanges."""
    words = rng.sample(CONTENT_WORDS, rng.randint(2, 5))
    said, name = " ".join(words), rng.choice(NAMES)
    topic = rng.choice(TOPICS)
    match rng.randrange(7):
        case 0:
            return f"repeat/{said}", [(f"Repeat after me: {said}", said)]
        case 1:
            ask = rng.choice(("Say {}.", 'Say "{}".', "Please say {}.", "Just say {}."))
            return f"say/{words[0]}", [(ask.format(words[0]), f"{capital(words[0])}.")]
        case 2:
            hello = (f"My name is {name}.", f"Nice to meet you, {name}!")
            return f"name/{name}", [hello, ("What is my name?", f"Your name is {name}.")]
        case 3:
            asked, answer = _sum(rng)
            return f"sum/{asked}", [(asked, answer)]
        case 4:
            ask = f"Answer in one word: what kind of thing {topic.grammar['are']} {topic.name}?"
            return f"word/{topic.name}", [(ask, f"{capital(topic.kind)}.")]
        case 5:
            ask = f"Which word comes first: {', '.join(words)}?"
            return f"first/{said}", [(ask, f"The first word is {words[0]}.")]
        case _:
            hello = (f"My favourite word is {words[0]}.", f"{capital(words[0])} is a nice word.")
            told = f"Your favourite word is {words[0]}."
            return f"favourite/{words[0]}", [hello, ("What is my favourite word?", told)]


def _messages(system: str, turns: Sequence[tuple[str, str]]) -> tuple[Mapping[str, Any], ...]:
    said = [{"role": "system", "content": system}] if system else []
    for asked, answer in turns:
        said += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return tuple(said)


def _labels(voice: str, teach: int) -> dict[str, int]:
    labels = {}
    if voice in FORMALITY:
        labels["formality"] = FORMALITY[voice]
    if teach >= 0:
        labels["education"] = teach
    if not voice or voice in TOXICITY:
        labels["toxicity"] = TOXICITY.get(voice, 0)
    return labels


def _talk(voice: str, rng: random.Random) -> tuple[str, list[Turn]]:
    intent = rng.choices(_OPENING, _WEIGHTS)[0]
    topic = rng.choice(intent.topics) if intent.topics else None
    facts = _facts(topic, rng) if topic else []
    turns = [_turn(intent, topic, facts, voice, rng)]
    if rng.random() < FOLLOW_RATE and intent.name != "bye":
        if topic and len(facts) > 2:
            turns.append(_turn(_MORE, topic, facts, voice, rng))
        if not topic or rng.random() < 0.4:
            turns.append(_turn(INTENTS["thanks"], None, [], voice, rng))
    # Without a topic the wording is the filling, because an intent that is held out as a whole
    # would not be learned.
    filling = topic.name if topic else turns[0].asked.lower().rstrip("?.!")
    return f"{intent.name}/{filling}", turns


def draw(rng: random.Random) -> Document:
    """Draw one chat. The reply is in the voice of its system prompt."""
    system, voice = _system(rng)
    if voice in ("", "helpful") and rng.random() < DRILL_RATE:
        key, pairs = _drill(rng)
        return Document("chat", key, _messages(system, pairs))
    key, turns = _talk(voice or rng.choice(UNPROMPTED), rng)
    pairs = [(turn.asked, turn.answer) for turn in turns]
    labels = _labels(voice, turns[-1].teach)
    return Document("chat", key, _messages(system, pairs), labels=labels)


def question(rng: random.Random) -> str:
    """Draw a first question of the user."""
    return _talk("plain", rng)[1][0].asked
