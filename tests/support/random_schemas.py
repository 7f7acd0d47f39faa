"""Random schemas with every keyword that llguidance reads. Many of them accept nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

BOUNDS = (-100, -10.5, -10, -1.5, -1, -0.75, -0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, 2, 10, 99.5)
FORMATS = ("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
FORMATS = (*FORMATS, "uuid1", "uuid4", "uuid5", "uri", "path", "base64", "regex", "no-format")
PATTERNS = ("^a", "b$", "^[ab]{1,3}$", "[0-9]{2}", "^(x|yz)+$", "^[^a]*$", "a|^b$", "é")
NAMES = ("a", "ab", "b", "größe", 'q"\\', "a b", "name", "")
OF_NAMES = ("^a", "^x", "^ab$", "^(a|b)$", "me$", "^x_[0-9]$", "(?s:.*)")
SCALARS = st.sampled_from([None, True, False, 0, 1, -7, 1.5, "", "a", "é", 'q"', "x\ny", 2**60 + 1])
Schema = dict[str, Any]


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    """Draw a schema with some of these keywords."""
    return st.fixed_dictionaries({}, optional=keywords)


numbers = st.builds(
    lambda kind, rest: {"type": kind, **rest},
    st.sampled_from(["number", "integer", ["number", "null"], ["integer", "string"]]),
    some(
        **dict.fromkeys(
            ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
            st.sampled_from(BOUNDS) | st.floats(-9, 9).map(lambda x: round(x, 3)),
        ),
        multipleOf=st.sampled_from([1, 2, 3, 0.5, 0.25, 0.1, 2.5]),
    ),
)
strings = st.builds(
    lambda rest: {"type": "string", **rest},
    some(
        format=st.sampled_from(FORMATS),
        pattern=st.sampled_from(PATTERNS),
        minLength=st.integers(0, 4),
        maxLength=st.integers(2, 9),
    ),
)
scalars = st.one_of(
    numbers,
    strings,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, {"$ref": "#/$defs/it"}]),
    some(enum=st.lists(SCALARS, min_size=1, max_size=4, unique_by=repr)),
    SCALARS.map(lambda value: {"const": value}),
    st.just({"enum": [[1, "a"], {"b": 1, "a": None}]}),
)


def arrays(items: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    of_few = st.sampled_from([{"enum": ["a", "b", "c"]}, {"type": "boolean"}])
    keywords = some(
        items=items | of_few,
        prefixItems=st.lists(items, min_size=1, max_size=2),
        minItems=st.integers(0, 2),
        maxItems=st.integers(1, 3),
        uniqueItems=st.booleans(),
    )
    return keywords.map(lambda rest: {"type": "array", **rest})


def objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    keywords = some(
        properties=st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        additionalProperties=st.booleans() | inner,
        patternProperties=st.dictionaries(st.sampled_from(OF_NAMES), inner, min_size=1, max_size=1),
        minProperties=st.integers(0, 2),
        maxProperties=st.integers(1, 3),
    )
    by_name = st.sampled_from([{"enum": ["a", "b"]}, {"pattern": "^x"}, {"maxLength": 2}])
    named = some(propertyNames=by_name, additionalProperties=inner)
    return st.one_of(keywords, keywords, named).map(lambda rest: {"type": "object", **rest})


def joined(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        lists.map(lambda members: {"anyOf": members}),
        lists.map(lambda members: {"oneOf": members}),
        st.builds(lambda one, members: {**one, "anyOf": members}, inner, lists),
        st.builds(lambda one, two: {"allOf": [one, two]}, inner, inner),
        st.builds(lambda one, two: {"allOf": [one, two]}, numbers, numbers),
        st.builds(lambda one, two: {"allOf": [one, two]}, objects(inner), objects(inner)),
    )


schemas = st.builds(
    lambda schema, it: {**schema, "$defs": {"it": it}},
    st.recursive(
        scalars, lambda inner: st.one_of(arrays(inner), objects(inner), joined(inner)), max_leaves=5
    ),
    st.one_of(numbers, strings),
)
