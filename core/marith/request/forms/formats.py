"""Formats of texts in JSON schemas, as patterns of what their readers take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MONTHS = (
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"  # none is 0000
_FOURTH = "(0[48]|[2468][048]|[13579][26])"
_DATE = f"({_YEAR}-{_MONTHS}|([0-9]{{2}}{_FOURTH}|{_FOURTH}00)-02-29)"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_SECONDS = rf"{_CLOCK}:[0-5][0-9](\.[0-9]{{1,9}})?"  # no leap second
_TIME = f"{_SECONDS}(Z|[+-]{_CLOCK})"
NAIVE = f"^{_DATE}T{_SECONDS}$"  # a date and time without an offset
# Durations as RFC 3339 has them: no unit is left out between two. Their readers have bounds.
_SOME = "[0-9]{1,6}"
_IN_DAY = f"({_SOME}H({_SOME}M({_SOME}S)?)?|{_SOME}M({_SOME}S)?|{_SOME}S)"
_DAYS = f"({_SOME}Y({_SOME}M({_SOME}D)?)?|{_SOME}M({_SOME}D)?|{_SOME}D)"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"  # at most 64 letters before the @


def _uuid(third: str = "[0-9a-fA-F]{4}", fourth: str = "[0-9a-fA-F]{4}") -> str:
    return f"^[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-{third}-{fourth}-[0-9a-fA-F]{{12}}$"


_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(\.{_BYTE}){{3}}"


def _ipv4_network() -> str:
    """Return a pattern of the IPv4 networks, whose bits after the prefix are zero."""
    networks = [rf"{_IPV4}(/32)?"]
    for length in range(32):
        whole, bits = divmod(length, 8)
        part = "|".join(map(str, range(0, 256, 2 ** (8 - bits))))
        octets = [_BYTE] * whole + [f"({part})"] + ["0"] * (3 - whole)
        networks.append(r"\.".join(octets) + f"/{length}")
    return f"^({'|'.join(networks)})$"


HELD = ("ipv4", "ipv6", "uri")  # llguidance's own patterns are right
FORMATS: dict[str, tuple[str, ...]] = {  # a text matches all patterns of its format
    "date": (f"^{_DATE}$",),
    "time": (f"^{_TIME}$",),
    "date-time": (f"^{_DATE}T{_TIME}$",),
    "duration": (f"^P({_DAYS}(T{_IN_DAY})?|T{_IN_DAY}|{_SOME}W)$",),
    "hostname": (rf"^({_LABEL}\.)*[A-Za-z]([A-Za-z0-9-]{{0,61}}[A-Za-z0-9])?$", "^.{1,253}$"),
    "email": (rf"^{_ATOM}(\.?{_ATOM}){{0,31}}@({_LABEL}\.){{1,3}}[A-Za-z]{{2,24}}$",),
    "ipv4network": (_ipv4_network(),),
    "ipv4interface": (rf"^{_IPV4}(/([12]?[0-9]|3[0-2]))?$",),
    "uuid": (_uuid(),),
    **{f"uuid{n}": (_uuid(f"{n}[0-9a-fA-F]{{3}}", "[89abAB][0-9a-fA-F]{3}"),) for n in range(1, 9)},
}


def url_pattern(schemes: Sequence[str]) -> str:
    """Return a pattern of URLs with one of some schemes and a host that has a name."""
    known = "|".join("".join(map(escaped, scheme)) for scheme in schemes)
    rest = r"(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~/-]*)?(\?[A-Za-z0-9._~=&%/-]*)?(#[A-Za-z0-9._~/-]*)?"
    return rf"^({known})://({_LABEL}\.){{0,4}}[A-Za-z][A-Za-z0-9]{{0,24}}{rest}$"


def text_of_length(least: Any, most: Any) -> str:
    """A pattern of any text of `least` to `most` letters."""
    return f"^(?s:.{{{least},{most}}})$"


def escaped(letter: str) -> str:
    """A letter in a pattern, within brackets too."""
    return letter if letter.isalnum() or ord(letter) > 127 else f"\\x{{{ord(letter):x}}}"
