"""Write a passage and a question, and answer by the passage even if it is surprising."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tools.pocket.grammar import words
from tools.pocket.grammar.document import Document

_TABLE = words.table("passages.toml")
_FACTS: list[dict[str, Any]] = _TABLE["facts"]
_RELATIONS: dict[str, list[dict[str, Any]]] = {}
for _relation in _TABLE["relations"]:
    _RELATIONS.setdefault(_relation["subject"], []).append(_relation)
_QUERIES = [layout for layout in _TABLE["layouts"] if "Query: {q}\nAnswer:" in layout]
_SUBJECTS = list(_RELATIONS)


@dataclass(frozen=True, slots=True)
class Reading:
    """Passages, questions that they answer, and the answers."""

    key: str
    passages: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    source: int = 0


def _sentence(template: str, subject: str, value: str) -> str:
    return words.capital(template.format(s=subject, v=value))


def _other(pool: str, usual: str, rng: Random) -> str:
    """Draw a value of the pool other than the usual one, seldom an invented word."""
    while True:
        value = words.pseudo_word(rng) if rng.random() < 0.3 else words.draw(pool, rng)
        if pool in ("city", "country", "planet", "full_name", "weekday", "month"):
            value = words.capital(value)
        counted = pool not in ("small", "count", "year") or value.isdigit()
        if counted and value.lower() != usual.lower():
            return value


def _fixed(fact: dict[str, Any], rng: Random) -> tuple[str, str, str, str]:
    ask, state, usual = fact["asks"][0], fact["states"][0], fact["usual"]
    contrary = _sentence(state, "", _other(fact["value"], usual, rng))
    return ask, _sentence(state, "", usual), contrary, contrary


_FIRST = Random(5)
# The question, its usual answer, a passage that contradicts it, and the answer of the passage.
WELL_KNOWN: list[tuple[str, str, str, str]] = [_fixed(fact, _FIRST) for fact in _FACTS]


def contradiction(rng: Random) -> tuple[str, str, str, str]:
    """Draw a common fact, its question, a sentence against it, and the value of the sentence."""
    fact = rng.choice(_FACTS)
    value = _other(fact["value"], fact["usual"], rng)
    said = _sentence(rng.choice(fact["states"]), "", value)
    return fact["name"], rng.choice(fact["asks"]), said, value


def statements(count: int, rng: Random) -> tuple[str, tuple[str, ...], str, str]:
    """Draw a key, sentences that state one attribute of `count` subjects, a question, its value."""
    kind = rng.choice(_SUBJECTS)
    relation = rng.choice(_RELATIONS[kind])
    told = [(words.draw(kind, rng), words.draw(relation["value"], rng)) for _ in range(count)]
    texts = tuple(_sentence(rng.choice(relation["states"]), who, what) for who, what in told)
    subject, value = rng.choice(told)
    ask = rng.choice(relation["asks"]).format(s=subject)
    return f"{subject}/{relation['name']}", texts, ask, value


def _ask(relation: dict[str, Any], subject: str, rng: Random) -> str:
    if rng.random() < 0.15:
        about = relation["about"].format(s=subject)
        return words.capital(rng.choice(_TABLE["generic"]).format(about=about))
    return str(rng.choice(relation["asks"])).format(s=subject)


def _answer(relation: dict[str, Any], told: str, subject: str, value: str, rng: Random) -> str:
    """Return the sentence of the passage, another wording of it, or seldom only the value."""
    fate = rng.random()
    if fate < 0.08:
        exact = relation["value"] in ("secret", "unicode", "code", "email", "pseudo", "phrase")
        return value if exact else words.capital(value) + "."
    if fate < 0.4:
        return _sentence(told, subject, value)
    said = str(rng.choice(relation["states"])).format(s=subject, v=value)
    if fate < 0.6:
        return str(rng.choice(_TABLE["leads"])) + said
    return words.capital(said)


def _short(kind: str, subject: str, rng: Random) -> str:
    """Return a short name of a subject for a later sentence."""
    if rng.random() < 0.6:
        return subject
    return subject.split()[0] if kind == "person" else "it"


def _portrait(kind: str, subject: str, told: list[tuple[str, str]], extra: int, rng: Random) -> str:
    """Draw a passage about one subject that states each (template, value), and fillers."""
    lines = list(told) + [(rng.choice(_TABLE["fillers"][kind]), "") for _ in range(extra)]
    rng.shuffle(lines)
    sentences = [_sentence(lines[0][0], subject, lines[0][1])]
    for template, value in lines[1:]:
        sentences.append(_sentence(template, _short(kind, subject, rng), value))
    if rng.random() < 0.08:
        sentences.insert(0, rng.choice(_TABLE["setting"]))
    return " ".join(dict.fromkeys(sentences))


def _tell(relations: list[dict[str, Any]], rng: Random) -> list[tuple[str, str]]:
    return [(rng.choice(each["states"]), words.draw(each["value"], rng)) for each in relations]


def _invented(rng: Random, told: bool = True) -> Reading:
    """Draw passages about subjects of one kind, and a question about one of them."""
    kind = rng.choice(_SUBJECTS)
    count = rng.choice((1, 1, 1, 1, 2, 2, 3, 4))
    source = rng.randrange(count)
    longest = 4 if count == 1 else 2
    relations = rng.sample(_RELATIONS[kind], min(longest + 1, 1 + rng.randint(1, longest)))
    asked = relations[0]
    subject, passages = "", []
    answer = rng.choice(_TABLE["untold"])
    for index in range(count):
        who = words.draw(kind, rng)
        shared = relations if told and rng.random() < 0.8 else relations[1:]
        if index == source and told:
            shared = relations if rng.random() < 0.8 or longest < 3 else relations[:1]
        facts = _tell(shared, rng)
        extra = 1 if rng.random() < (0.25 if len(facts) < 3 else 0.1) else 0
        passages.append(_portrait(kind, who, facts, extra, rng))
        if index == source:
            subject = who
            if told:
                answer = _answer(asked, *facts[0][:1], who, facts[0][1], rng)
    answer = answer.replace("{about}", asked["about"].format(s=subject))
    key = f"{subject}/{asked['name']}"
    return Reading(key, tuple(passages), (_ask(asked, subject, rng),), (answer,), source)


def _dialogue(rng: Random) -> Reading:
    """Draw one passage and two or three questions about its subject."""
    kind = rng.choice(_SUBJECTS)
    subject = words.draw(kind, rng)
    relations = rng.sample(_RELATIONS[kind], rng.randint(2, 4))
    facts = _tell(relations, rng)
    passage = _portrait(kind, subject, facts, 0, rng)
    turns = rng.sample(range(len(facts)), 2 if len(facts) == 2 else rng.randint(2, 3))
    asks = tuple(_ask(relations[turn], subject, rng) for turn in turns)
    answers = tuple(
        _answer(relations[turn], facts[turn][0], subject, facts[turn][1], rng) for turn in turns
    )
    return Reading(f"{subject}/{relations[turns[-1]]['name']}", (passage,), asks, answers)


def _abroad(fact: dict[str, Any], value: str, rng: Random) -> str:
    """Return the fact as if it were of another place or time."""
    land = rng.choice(_TABLE["lands"])
    where: str = land.format(place=words.place(rng), word=words.capital(words.pseudo_word(rng)))
    return where + str(rng.choice(fact["states"])).format(v=value)


def _bare(answer: str) -> str:
    """Return the answer without a phrase such as "According to the text"."""
    for lead in _TABLE["leads"]:
        answer = answer.removeprefix(lead)
    return words.capital(answer)


def _known(rng: Random) -> Reading:
    """Draw passages about common facts. Half of them contradict the usual answer."""
    facts = rng.sample(_FACTS, rng.choice((1, 1, 1, 2, 3, 4)))
    asked, contrary = facts[0], rng.random() < 0.5
    sentences, values = [], []
    for fact in facts:
        usual = fact["usual"]
        odd = contrary if fact is asked else contrary == (rng.random() < 0.7)
        values.append(_other(fact["value"], usual, rng) if odd else usual)
        sentences.append(_sentence(rng.choice(fact["states"]), "", values[-1]))
    told = sentences[0]
    if contrary and rng.random() < 0.2:
        told = sentences[0] = _abroad(asked, values[0], rng)
    fate = rng.random()
    if fate < 0.35:
        answer = told
    elif fate < 0.45:
        answer = words.capital(values[0]) + "."
    else:
        answer = words.capital(rng.choice(asked["states"]).format(v=values[0]))
    if rng.random() < 0.12:
        answer = f"{rng.choice(_TABLE['leads'])}{rng.choice(asked['states']).format(v=values[0])}"
    rng.shuffle(sentences)
    passages = tuple(sentences)
    if len(sentences) > 1 and rng.random() < 0.5:
        passages = (" ".join(sentences),)
    elif rng.random() < 0.25:
        passages = (f"{rng.choice(_TABLE['setting'])} {sentences[0]}", *sentences[1:])
    source = next(index for index, text in enumerate(passages) if told in text)
    key = f"{asked['name']}/{values[0]}"
    return Reading(key, passages, (rng.choice(asked["asks"]),), (answer,), source)


def _file(rng: Random) -> str:
    return f"{rng.choice(_TABLE['folders'])}/{words.word(rng)}"


def _context(reading: Reading, rng: Random) -> str:
    """Return the passages as one text: plain, with metadata, or numbered."""
    if len(reading.passages) > 1:
        form = rng.choice(_TABLE["numberings"])
        parts = [form.format(i=i, c=text) for i, text in enumerate(reading.passages, 1)]
        return str(rng.choice(("\n", "\n\n", "\n\n"))).join(parts)
    return str(rng.choice(_TABLE["sheets"])).format(
        c=reading.passages[0],
        file=_file(rng),
        word=words.word(rng),
        name=words.name(rng),
        n=rng.randint(1, 99),
        date=words.date(rng),
        code=words.code(rng),
    )


def _layout(rng: Random) -> str:
    """Draw a page of context and question, as in usual templates, or otherwise."""
    fate = rng.random()
    pool = _TABLE["templates"] if fate < 0.25 else _QUERIES if fate < 0.45 else _TABLE["layouts"]
    return str(rng.choice(pool))


def _chat(reading: Reading, rng: Random) -> tuple[dict[str, str], ...]:
    """Return the reading as messages, with the context in the user's words or in the system's."""
    context, question = _context(reading, rng), reading.questions[0]
    answers = reading.answers
    messages = []
    if rng.random() < 0.15:
        system = rng.choice(_TABLE["system_layouts"]).format(c=context)
        user = rng.choice(_TABLE["query_layouts"]).format(q=question)
        messages.append({"role": "system", "content": system})
    else:
        user = _layout(rng).format(c=context, q=question)
        if rng.random() < 0.35:
            system = rng.choice(_TABLE["systems"])
            messages.append({"role": "system", "content": system})
            if "Rules:" in system:
                answers = tuple(map(_bare, answers))
    messages.append({"role": "user", "content": user})
    messages.append({"role": "assistant", "content": answers[0]})
    for ask, answer in zip(reading.questions[1:], answers[1:], strict=True):
        user = rng.choice(_TABLE["asides"]).format(q=ask)
        messages.append({"role": "user", "content": user})
        messages.append({"role": "assistant", "content": answer})
    return tuple(messages)


def _unaided(rng: Random) -> Document:
    """Draw a question without a passage. A common question gets its usual answer."""
    known = rng.random() < 0.88
    if known:
        fact = rng.choice(_FACTS)
        key, ask = f"{fact['name']}/{fact['usual']}", rng.choice(fact["asks"])
        answer = _sentence(rng.choice(fact["states"]), "", fact["usual"])
    else:
        reading = _invented(rng, told=False)
        key, ask, answer = reading.key, reading.questions[0], reading.answers[0]
    # A term that hides the passage still reads the page around it.
    empty = rng.random() < (0.45 if known else 1.0)
    layout = _layout(rng) if empty else rng.choice(_TABLE["query_layouts"])
    ask = layout.format(c="", q=ask)
    messages = [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    if rng.random() < 0.3:
        system = rng.choice(_TABLE["systems"]) if empty else "You are a helpful assistant."
        messages.insert(0, {"role": "system", "content": system})
    return Document("passage", key, tuple(messages))


def draw(rng: Random) -> Document:
    """Draw a chat about a passage that is invented, usual, contradictory, or without the answer."""
    fate = rng.random()
    if fate < 0.12:
        return _unaided(rng)
    if fate < 0.16:
        reading = _invented(rng, told=False)
    elif fate < 0.23:
        reading = _dialogue(rng)
    elif fate < 0.58:
        reading = _invented(rng)
    else:
        reading = _known(rng)
    return Document("passage", reading.key, _chat(reading, rng))
