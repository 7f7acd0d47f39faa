"""Write the text formats of JSON schemas as patterns, and pydantic classes as JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from marith.errors import RequestError, shown

_MONTHS = (
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))"
)
# There is no year 0000.
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_FOURTH = "(0[48]|[2468][048]|[13579][26])"
_DATE = f"({_YEAR}-{_MONTHS}|([0-9]{{2}}{_FOURTH}|{_FOURTH}00)-02-29)"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
# Leap seconds are left out.
_SECONDS = rf"{_CLOCK}:[0-5][0-9](\.[0-9]{{1,9}})?"
_TIME = f"{_SECONDS}(Z|[+-]{_CLOCK})"
# A naive date and time has no offset.
NAIVE = f"^{_DATE}T{_SECONDS}$"
# Durations are written as in RFC 3339: neither the date nor the time may leave out a unit between
# two others, so P1Y1D is not a duration. The numbers have at most six digits, because programs that
# read durations limit them.
_SOME = "[0-9]{1,6}"
_IN_DAY = f"({_SOME}H({_SOME}M({_SOME}S)?)?|{_SOME}M({_SOME}S)?|{_SOME}S)"
_DAYS = f"({_SOME}Y({_SOME}M({_SOME}D)?)?|{_SOME}M({_SOME}D)?|{_SOME}D)"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
# These formats are left to llguidance, whose own patterns for them are correct.
HELD = ("ipv4", "ipv6", "uri")


def _uuid(third: str = "[0-9a-fA-F]{4}", fourth: str = "[0-9a-fA-F]{4}") -> str:
    return f"^[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-{third}-{fourth}-[0-9a-fA-F]{{12}}$"


# A text must match all patterns of its format. An email address has at most 64 characters before
# the @.
FORMATS: dict[str, tuple[str, ...]] = {
    "date": (f"^{_DATE}$",),
    "time": (f"^{_TIME}$",),
    "date-time": (f"^{_DATE}T{_TIME}$",),
    "duration": (f"^P({_DAYS}(T{_IN_DAY})?|T{_IN_DAY}|{_SOME}W)$",),
    "hostname": (rf"^({_LABEL}\.)*[A-Za-z]([A-Za-z0-9-]{{0,61}}[A-Za-z0-9])?$", "^.{1,253}$"),
    "email": (rf"^{_ATOM}(\.?{_ATOM}){{0,31}}@({_LABEL}\.){{1,3}}[A-Za-z]{{2,24}}$",),
    "uuid": (_uuid(),),
    **{f"uuid{n}": (_uuid(f"{n}[0-9a-fA-F]{{3}}", "[89abAB][0-9a-fA-F]{3}"),) for n in range(1, 9)},
}


def url_pattern(schemes: Sequence[str]) -> str:
    """Return a pattern of URLs with one of `schemes` and a host name."""
    known = "|".join("".join(map(escaped, scheme)) for scheme in schemes)
    rest = r"(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~/-]*)?(\?[A-Za-z0-9._~=&%/-]*)?(#[A-Za-z0-9._~/-]*)?"
    return rf"^({known})://({_LABEL}\.){{0,4}}[A-Za-z][A-Za-z0-9]{{0,24}}{rest}$"


def escaped(letter: str) -> str:
    """Return a character as it is written in a pattern, inside or outside brackets."""
    return letter if letter.isalnum() or ord(letter) > 127 else f"\\x{{{ord(letter):x}}}"


class _ReadByPydantic(GenerateJsonSchema):
    """A generator of schemas for pydantic classes that read the answer.

    A decimal must be written as a number, because pydantic's schema for a decimal written as text
    does not enforce its bounds.
    """

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """Return the schema of a date and time, without an offset if it must be naive."""
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "pattern": NAIVE} if naive else super().datetime_schema(schema)

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        """Return the schema of a URL, limited to its allowed schemes."""
        written = super().url_schema(schema)
        schemes = schema.get("allowed_schemes")
        if not schemes:
            return written
        del written["format"]
        return {**written, "pattern": url_pattern(schemes)}

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """Return the schema of a decimal as a number, with the bounds that its digits imply."""
        number: JsonSchemaValue = super().decimal_schema(schema)["anyOf"][0]
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if places is not None:
            number.setdefault("multipleOf", float(f"1e-{places}"))
            if digits is not None:
                limit = 10.0 ** (digits - places)
                number["exclusiveMaximum"] = min(limit, number.get("exclusiveMaximum", limit))
                number["exclusiveMinimum"] = max(-limit, number.get("exclusiveMinimum", -limit))
        return number

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Return the schema of a union.

        If a function, and not a field, chooses the class, a value may match several classes. So
        `oneOf` becomes `anyOf`.
        """
        written = super().tagged_union_schema(schema)
        if "discriminator" not in written:
            written["anyOf"] = written.pop("oneOf")
        return written


def schema_of(schema: Mapping[str, Any] | type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON schema of a pydantic class, or the schema itself. Raises RequestError."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            return schema.model_json_schema(schema_generator=_ReadByPydantic)
        except PydanticUserError as error:
            problem = f"{schema.__name__} has no JSON schema"
            raise RequestError(f"{problem}: {error.message}") from error
    if not isinstance(schema, Mapping):
        problem = "a JSON schema must be a mapping or a pydantic class"
        raise RequestError(f"{problem}, not {shown(schema)}")
    if any(isinstance(schema.get(key), Mapping) for key in ("schema", "json_schema")):
        problem = "this is a response format of OpenAI, which wraps a JSON schema"
        raise RequestError(f"{problem}; pass only the value of its 'schema', not {shown(schema)}")
    return schema
