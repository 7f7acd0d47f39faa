"""Draw random words, names, numbers and strings, common and invented."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from importlib import resources
from random import Random
from typing import Any


def table(name: str) -> dict[str, Any]:
    """Return the data file `name` beside this module."""
    text = resources.files("tools.pocket.grammar").joinpath(name).read_text("utf-8")
    return tomllib.loads(text)


_TABLE = table("words.toml")
_SYLLABLES: Mapping[str, list[str]] = {
    part: text.split() for part, text in _TABLE["syllables"].items()
}
LISTS: Mapping[str, list[str]] = {kind: text.split() for kind, text in _TABLE["words"].items()}
_ALPHABETS: Mapping[str, str] = _TABLE["alphabets"]
_SCRIPTS = list(_ALPHABETS)
_RANGES: Mapping[str, str] = _TABLE["ranges"]
_RANGE_WEIGHTS: list[int] = [_TABLE["range_weights"][script] for script in _RANGES]
_SPACED = ("cyrillic", "greek", "arabic", "hebrew", "latin", "hangul")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_LENGTHS = (1, 1, 2, 2, 2, 2, 3, 3, 4)


def capital(text: str) -> str:
    """Return the text with its first letter in upper case and the rest unchanged."""
    return text[:1].upper() + text[1:]


def pseudo_word(rng: Random) -> str:
    """Draw an invented word of one to four syllables that can be pronounced."""
    count = rng.choice(_LENGTHS)
    parts = []
    for index in range(count):
        parts.append(rng.choice(_SYLLABLES["onsets"]) + rng.choice(_SYLLABLES["nuclei"]))
        if count == 1 or rng.random() < (0.5 if index == count - 1 else 0.2):
            parts.append(rng.choice(_SYLLABLES["codas"]))
    return "".join(parts)


def name(rng: Random) -> str:
    """Draw a given name, invented in three draws of ten."""
    return pseudo_word(rng).capitalize() if rng.random() < 0.3 else rng.choice(LISTS["name"])


def full_name(rng: Random) -> str:
    """Draw a given name and an invented family name."""
    return f"{name(rng)} {pseudo_word(rng).capitalize()}"


def integer(rng: Random) -> int:
    """Draw a whole number of one to six digits, seldom negative."""
    value = rng.randrange(10 ** rng.choice((1, 2, 2, 3, 3, 4, 5, 6)))
    return -value if rng.random() < 0.08 else value


def decimal(rng: Random) -> float:
    """Draw a number with one or two decimals."""
    places = rng.choice((1, 1, 2))
    return float(round((rng.randrange(10 ** rng.choice((2, 3, 4))) + 1) / 10**places, places))


def number(rng: Random) -> str:
    """Draw the digits of an integer, or sometimes of a decimal."""
    return str(decimal(rng) if rng.random() < 0.2 else integer(rng))


def unicode_string(rng: Random) -> str:
    """Draw a short string that mixes scripts, accents, signs and emoji."""
    parts = []
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        alphabet = _ALPHABETS[rng.choice(_SCRIPTS)]
        parts.append("".join(rng.choices(alphabet, k=rng.randint(1, 5))))
        if rng.random() < 0.3:
            parts.append(pseudo_word(rng))
    return rng.choice(("", "", " ", "-")).join(parts)


def _letters(script: str, rng: Random) -> str:
    """Draw a word in one script, of any of its letters and not only those of a list."""
    first, last = map(ord, _RANGES[script])
    return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(2, 6)))


def script(rng: Random) -> str:
    """Draw a name in another script: one or two words of random letters."""
    first = rng.choices(list(_RANGES), _RANGE_WEIGHTS)[0]
    text = _letters(first, rng)
    if first in _SPACED:
        return f"{text} {_letters(first, rng)}" if rng.random() < 0.3 else text
    if rng.random() < 0.4:
        text += _letters(rng.choice(("han", "hiragana", "katakana", first)), rng)
    return text


def word(rng: Random) -> str:
    """Draw a common word, or an invented one."""
    kind = rng.random()
    if kind < 0.4:
        return pseudo_word(rng)
    return rng.choice(LISTS["nouns" if kind < 0.75 else "adjectives"])


def phrase(rng: Random) -> str:
    """Draw one to four words, common or invented."""
    return " ".join(word(rng) for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))


def title(rng: Random) -> str:
    """Draw two to four capitalised words, as on a cover."""
    return "The " + " ".join(capital(word(rng)) for _ in range(rng.randint(1, 3)))


def identifier(rng: Random) -> str:
    """Draw a name in snake case, such as `count_lamps` or `zorblat_count`."""
    first = rng.choice(LISTS["verbs"]) if rng.random() < 0.6 else word(rng)
    return "_".join([first, *(word(rng) for _ in range(rng.choice((1, 1, 1, 2))))])


def date(rng: Random) -> str:
    """Draw a day of the calendar, in one of four forms."""
    day, year = rng.randint(1, 28), rng.randint(1400, 2090)
    if rng.random() < 0.4:
        return f"{year}-{rng.randint(1, 12):02}-{day:02}"
    month = rng.choice(LISTS["month"])
    return rng.choice((f"{day} {month} {year}", f"{month} {day}", f"{day} {month}"))


def city(rng: Random) -> str:
    """Draw a city of the world, or an invented one."""
    return rng.choice(LISTS["city"]) if rng.random() < 0.6 else capital(pseudo_word(rng))


def place(rng: Random) -> str:
    """Draw an invented landmark, such as Zorvan Lake."""
    return f"{capital(pseudo_word(rng))} {rng.choice(LISTS['ground'])}"


def firm(rng: Random) -> str:
    """Draw an invented company, such as Pelu Mills."""
    return f"{capital(pseudo_word(rng))} {rng.choice(LISTS['trade'])}"


def email(rng: Random) -> str:
    """Draw an address at an example domain."""
    return f"{pseudo_word(rng)}{rng.choice(('', '', '.', '_'))}{word(rng)}@{word(rng)}.example"


def code(rng: Random) -> str:
    """Draw letters and digits, such as KX-4821."""
    letters = "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=rng.randint(1, 3)))
    return f"{letters}{rng.choice(('-', '', '_'))}{rng.randrange(10, 10 ** rng.randint(2, 5))}"


def located(rng: Random) -> str:
    """Draw a town, mostly with its region after a comma, such as Port Zelan, KV."""
    town = city(rng)
    if rng.random() < 0.35:
        town = f"{rng.choice(LISTS['prefix'])} {town}"
    fate = rng.random()
    if fate < 0.3:
        return town
    if fate < 0.75:
        return f"{town}, {''.join(rng.choices(_LETTERS[26:52], k=2))}"
    land = rng.choice(LISTS["country"]) if fate < 0.88 else pseudo_word(rng)
    return f"{town}, {capital(land)}"


def camel(rng: Random) -> str:
    """Draw a name in camel case, such as countLamps or ZorblatCount."""
    first, *rest = (word(rng) for _ in range(rng.choice((2, 2, 3))))
    return rng.choice((first, capital(first))) + "".join(map(capital, rest))


def kebab(rng: Random) -> str:
    """Draw a name with hyphens, such as lamp-count."""
    return "-".join(word(rng) for _ in range(rng.choice((2, 2, 3))))


def jumble(rng: Random) -> str:
    """Draw letters and digits in no order, such as xQ7bRt."""
    return "".join(rng.choices(_LETTERS, k=rng.randint(3, 9)))


def line(rng: Random) -> str:
    """Draw three to seven words of any kind."""
    kinds = (word, word, word, pseudo_word, number, name, code, camel)
    return " ".join(rng.choice(kinds)(rng) for _ in range(rng.randint(3, 7)))


def remark(rng: Random) -> str:
    """Draw a sentence of a few words, such as "The pale lamp sings."."""
    words = " ".join(word(rng) for _ in range(rng.randint(2, 5)))
    return f"{rng.choice(('The', 'A', 'My', 'Our', 'One'))} {words}{rng.choice('.!?')}"


def secret(rng: Random) -> str:
    """Draw something that must be copied letter by letter."""
    kinds = (code, unicode_string, script, identifier, camel, jumble, phrase, pseudo_word, number)
    return rng.choice(kinds)(rng)


def words_of(text: str) -> str:
    """Return an identifier as spoken, with spaces for its underscores."""
    return text.replace("_", " ")


KINDS: Mapping[str, Callable[[Random], str]] = {
    "pseudo": pseudo_word,
    "name": name,
    "full_name": full_name,
    "person": full_name,
    "number": number,
    "unicode": unicode_string,
    "phrase": phrase,
    "word": word,
    "title": title,
    "book": title,
    "identifier": identifier,
    "date": date,
    "city": city,
    "place": place,
    "firm": firm,
    "email": email,
    "located": located,
    "script": script,
    "camel": camel,
    "kebab": kebab,
    "jumble": jumble,
    "line": line,
    "remark": remark,
    "code": code,
    "secret": secret,
    "count": lambda rng: str(rng.randrange(2, 10 ** rng.randint(1, 5) + 2)),
    "small": lambda rng: str(rng.randint(2, 99)),
    "year": lambda rng: str(rng.randint(900, 2099)),
    "time": lambda rng: f"{rng.randint(0, 23)}:{rng.randrange(0, 60, 5):02}",
    "device": lambda rng: f"the {capital(pseudo_word(rng))} {rng.choice(LISTS['device'])}",
    "creature": lambda rng: f"the {pseudo_word(rng)}",
    "measure": lambda rng: f"{rng.randint(2, 9999)} {rng.choice(LISTS['unit'])}",
    "length": lambda rng: f"{rng.randint(2, 9999)} {rng.choice(LISTS['distance'])}",
    "thing": lambda rng: f"{rng.choice(LISTS['adjectives'])} {rng.choice(LISTS['nouns'])}",
}


def draw(kind: str, rng: Random) -> str:
    """Draw a text of one of `KINDS`, or a word of one of `LISTS`."""
    make = KINDS.get(kind)
    return make(rng) if make else rng.choice(LISTS[kind])
