"""Make tools with random names and parameters, and requests for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from tools.pocket.grammar import words
from tools.pocket.grammar.chats import CONTENT_WORDS

TABLE = words.table("tools.toml")
_SPECS: list[dict[str, Any]] = TABLE["parameters"]
_TOPICS: list[str] = TABLE["topics"].split()
_TAILS: list[str] = TABLE["tails"].split()
# The corpus leaves out these names, because others test models with them.
WITHHELD: tuple[str, ...] = tuple(TABLE["withheld"].split())
_PLAIN_TYPES = ("string", "string", "integer", "integer", "number", "boolean", "array")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool, the value that a user gives it, and how the user says it."""

    name: str
    schema: dict[str, Any]
    value: Any
    spoken: str
    phrases: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool with the words that a request for it uses."""

    name: str
    verb: str
    noun: str
    asks: bool
    description: str
    parameters: tuple[Parameter, ...]


def _quoted(text: str, rng: Random) -> str:
    mark = rng.choice(("'", "'", '"', '"', ""))
    return f"{mark}{text}{mark}"


def pick(kind: str, rng: Random) -> tuple[Any, str]:
    """Draw a value, and how it is spoken."""
    if kind in ("integer", "rating"):
        number = words.integer(rng) if kind == "integer" else rng.randint(1, 10)
        return number, str(number)
    if kind in ("age", "year"):
        number = rng.randint(1, 99) if kind == "age" else rng.randint(1200, 2099)
        return number, str(number)
    if kind == "decimal":
        return (amount := words.decimal(rng)), str(amount)
    if kind == "boolean":
        return (flag := rng.random() < 0.5), str(flag).lower()
    if kind == "foreign":
        text = words.draw("script" if rng.random() < 0.8 else "unicode", rng)
        gloss = f" ({words.capital(words.word(rng))} {words.capital(words.word(rng))})"
        return text, _quoted(text, rng) + (gloss if rng.random() < 0.5 else "")
    if kind in ("quoted", "quoted_line"):
        plain = kind == "quoted_line" or rng.random() < 0.6
        text = words.draw("phrase" if plain else "secret", rng)
        if kind == "quoted_line":
            return (line := f"{words.capital(text)} {words.word(rng)}."), line
        return text, _quoted(text, rng)
    text = words.draw(kind, rng)
    return text, _quoted(text, rng) if kind in ("secret", "phrase") else text


def _array(rng: Random) -> tuple[dict[str, Any], Any, str]:
    values = list(dict.fromkeys(words.word(rng) for _ in range(rng.choice((1, 2, 2, 3)))))
    mark = rng.choice(("'", '"', "", ""))
    spoken = [f"{mark}{value}{mark}" for value in values]
    text = spoken[0]
    if len(spoken) > 1:
        text = rng.choice((", ".join(spoken), ", ".join(spoken[:-1]) + " and " + spoken[-1]))
    return {"type": "array", "items": {"type": "string"}}, values, text


def _object(rng: Random) -> tuple[dict[str, Any], Any, str]:
    fields = rng.sample(("city", "name", "code", "food", "number", "animal"), 2)
    schema: dict[str, Any] = {}
    value: dict[str, Any] = {}
    for each in fields:
        value[each] = words.integer(rng) if each == "number" else words.draw(each, rng)
        schema[each] = {"type": "integer" if each == "number" else "string"}
    spoken = " and ".join(f"{key} {each}" for key, each in value.items())
    return {"type": "object", "properties": schema, "required": fields}, value, spoken


def _typed(type_: str, draw: str, rng: Random) -> tuple[dict[str, Any], Any, str]:
    """Draw a schema, a value, and how the value is spoken."""
    if type_ == "array":
        return _array(rng)
    if type_ == "object":
        return _object(rng)
    if type_ == "enum":
        choices = list(dict.fromkeys(words.word(rng) for _ in range(rng.randint(2, 4))))
        value = rng.choice(choices)
        return {"type": "string", "enum": choices}, value, value
    value, spoken = pick(draw, rng)
    return {"type": type_}, value, spoken


def _parameter(taken: list[str], rng: Random) -> Parameter:
    """Draw a parameter with a new name, usual or invented."""
    while True:
        spec = rng.choice(_SPECS)
        name, type_, draw = rng.choice(spec["names"].split()), spec["type"], spec["draw"]
        phrases = tuple(spec["phrases"])
        if rng.random() < 0.25:
            name = rng.choice((words.pseudo_word, words.word, words.identifier))(rng)
            type_ = rng.choice(_PLAIN_TYPES)
            draw = {"string": "quoted", "number": "decimal"}.get(type_, type_)
            phrases = tuple(TABLE["named_pairs"])
        if type_ == "object" and rng.random() < 0.5:
            continue
        if name not in taken:
            break
    schema, value, spoken = _typed(type_, draw, rng)
    if rng.random() < 0.25:
        about = rng.choice(TABLE["parameter_descriptions"])
        schema["description"] = about.format(n=words.words_of(name), w=words.word(rng))
    return Parameter(name, schema, value, spoken, phrases, rng.random() < 0.85)


def _name(verb: str, noun: str, rng: Random) -> str:
    """Draw a tool's name in snake case or camel case, but never a withheld one."""
    while True:
        name = _any_name(verb.replace(" ", "_"), noun, rng)
        if not any(withheld in name for withheld in WITHHELD):
            return name


def _any_name(verb: str, noun: str, rng: Random) -> str:
    fate = rng.random()
    if fate < 0.35:
        return f"{verb}_{noun}"
    if fate < 0.43:
        return f"{noun}_{words.word(rng)}"
    if fate < 0.51:
        return f"{verb}_{noun}_{words.word(rng)}"
    if fate < 0.60:
        return f"{noun}_{rng.choice(_TAILS)}"
    if fate < 0.75:
        odd = [rng.choice((_common, words.pseudo_word, words.word))(rng) for _ in range(2)]
        return "_".join(odd if rng.random() < 0.6 else [*odd, rng.choice(_TAILS)])
    if fate < 0.82:
        return words.camel(rng)
    return noun if fate < 0.86 else words.identifier(rng)


def _common(rng: Random) -> str:
    return rng.choice(CONTENT_WORDS)


def _article(form: str, noun: str) -> str:
    return form.replace("a {noun}", "an {noun}") if noun[0] in "aeiou" else form


def make(count: int, rng: Random) -> Tool:
    """Draw a tool with a random name and `count` parameters."""
    asks = rng.random() < 0.6
    verb = rng.choice(TABLE["ask_verbs" if asks else "act_verbs"])
    noun = rng.choice(_TOPICS)
    if rng.random() < 0.4:
        common = rng.random() < 0.5
        noun = rng.choice(words.LISTS["nouns"]) if common else words.pseudo_word(rng)
    form = rng.choice(TABLE["ask_descriptions" if asks else "act_descriptions"])
    spoken = words.words_of(noun)
    form = _article(form, spoken)
    description = form.format(verb=verb, Verb=words.capital(verb), noun=spoken)
    parameters: list[Parameter] = []
    for _ in range(count):
        parameters.append(_parameter([each.name for each in parameters], rng))
    return Tool(_name(verb, noun, rng), verb, spoken, asks, description, tuple(parameters))


def named(
    verb: str, noun: str, description: str, parameters: tuple[Parameter, ...], rng: Random
) -> Tool:
    """Return a tool that does something, with these parameters and a random name."""
    return Tool(_name(verb, noun, rng), verb, noun, False, description, parameters)


def offer(tool: Tool, rng: Random) -> dict[str, Any]:
    """Return the tool in OpenAI's format."""
    properties = {each.name: each.schema for each in tool.parameters}
    required = [each.name for each in tool.parameters if each.required]
    fields: dict[str, Any] = {"type": "object", "properties": properties}
    if rng.random() < 0.5:
        fields = {"properties": properties, "type": "object"}
        if required:
            fields = {"properties": properties, "required": required, "type": "object"}
    elif required or rng.random() < 0.3:
        fields["required"] = required
    function = {"name": tool.name, "description": tool.description, "parameters": fields}
    return {"type": "function", "function": function}


def _spoken(tool: Tool, given: list[Parameter], named: bool, rng: Random) -> str:
    """Return the values in any order, each with words that show its parameter."""
    given = rng.sample(given, len(given))
    phrases = []
    for each in given:
        pool = each.phrases
        if named and rng.random() < 0.5:
            pool = tuple(TABLE["named_values" if len(tool.parameters) == 1 else "named_pairs"])
        form = rng.choice(pool)
        twins = [other for other in tool.parameters if other.schema["type"] == each.schema["type"]]
        if len(twins) > 1 and "{n}" not in form:
            form = rng.choice(TABLE["named_pairs"])
        phrases.append(form.format(n=words.words_of(each.name), v=each.spoken))
    return str(rng.choice(TABLE["joins"])).join(phrases)


def _as_call(tool: Tool, given: list[Parameter], rng: Random) -> str:
    """Return the request as a function call, such as `blorf_lamps(3)`."""
    shown = [json.dumps(each.value, ensure_ascii=False) for each in given]
    if len(given) > 1 or rng.random() < 0.3:
        sign = rng.choice(("=", ": "))
        shown = [f"{each.name}{sign}{text}" for each, text in zip(given, shown, strict=True)]
    call = f"{tool.name}({', '.join(shown)})"
    return str(rng.choice(TABLE["written_calls"])).format(call=call, name=tool.name)


def request(tool: Tool, rng: Random) -> tuple[str, dict[str, Any]]:
    """Draw the user's request, and the arguments that it asks for."""
    given = [each for each in tool.parameters if each.required or rng.random() < 0.6]
    if rng.random() < 0.12:
        return _as_call(tool, given, rng), {each.name: each.value for each in given}
    named = rng.random() < 0.4
    form = rng.choice(TABLE["named" if named else "ask" if tool.asks else "act"])
    form = _article(form, tool.noun)
    said = _spoken(tool, given, named, rng)
    text = form if said else form.replace(": {a}", "").replace(" {a}", "")
    text = text.format(
        verb=tool.verb,
        Verb=words.capital(tool.verb),
        noun=tool.noun,
        name=tool.name,
        spoken=words.words_of(tool.name),
        a=said,
    )
    if rng.random() < 0.08:
        text = f"{rng.choice(('Hello', 'Hi', 'Hey'))}, I'm {words.name(rng)}. {text}"
    return text, {each.name: each.value for each in given}
