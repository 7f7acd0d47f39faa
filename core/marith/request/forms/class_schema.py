"""Classes of pydantic's as JSON schemas of what they read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from marith.errors import RequestError, shown
from marith.request.forms.formats import NAIVE, url_pattern

_INTEGER = "(0|-?[1-9][0-9]{0,15})"
_NAMES = {
    "integer": f"^{_INTEGER}$",
    "number": rf"^{_INTEGER}(\.[0-9]{{1,16}})?$",
    "boolean": "^(true|false)$",
}


class _ReadByPydantic(GenerateJsonSchema):
    """The schema of a class that reads the answer itself.

    A decimal number is a number: as a text it would be any text. Names of properties are texts that
    are read as the keys of a dict.
    """

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Return the schema of an object, whose names are written as JSON writes their values."""
        written = super().dict_schema(schema)
        keys = self.generate_inner(schema.get("keys_schema", core_schema.any_schema()))
        keys = self.resolve_ref_schema(keys)
        known = keys.get("enum", [keys["const"]] if "const" in keys else [])
        if known and not all(isinstance(name, str) for name in known):
            names = [name if isinstance(name, str) else json.dumps(name) for name in known]
            written["propertyNames"] = {"enum": names}
        elif not known and keys.get("type") in _NAMES:
            written["propertyNames"] = {"pattern": _NAMES[keys["type"]]}
        return written

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        """Return the schema of a date and time, without an offset if it has to be naive."""
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "pattern": NAIVE} if naive else super().datetime_schema(schema)

    def url_schema(self, schema: core_schema.UrlSchema) -> JsonSchemaValue:
        """Return the schema of a URL, with one of its schemes."""
        written = super().url_schema(schema)
        schemes = schema.get("allowed_schemes")
        if not schemes:
            return written
        del written["format"]
        return {**written, "pattern": url_pattern(schemes)}

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """Return the schema of a number, of at most as many digits where places are bounded."""
        number: JsonSchemaValue = super().decimal_schema(schema)["anyOf"][0]
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if places is not None:
            number.setdefault("multipleOf", float(f"1e-{places}"))
            if digits is not None:
                most = 10.0 ** (digits - places)
                number["exclusiveMaximum"] = min(most, number.get("exclusiveMaximum", most))
                number["exclusiveMinimum"] = max(-most, number.get("exclusiveMinimum", -most))
        return number


def schema_of(schema: Mapping[str, Any] | type[BaseModel]) -> Mapping[str, Any]:
    """A JSON schema as it is, or that of a class of pydantic's. Raises RequestError."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            return schema.model_json_schema(schema_generator=_ReadByPydantic)
        except PydanticUserError as error:
            problem = f"{schema.__name__} has no JSON schema"
            raise RequestError(f"{problem}: {error.message}") from error
    if not isinstance(schema, Mapping):
        problem = "a JSON schema is a mapping, or a class of pydantic's"
        raise RequestError(f"{problem}, not {shown(schema)}")
    return schema
