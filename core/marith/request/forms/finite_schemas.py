"""Find definitions of a JSON schema that always contain themselves.

No finite text matches such a definition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from marith.errors import RequestError
from marith.request.forms.json_schema import inner_schemas, target

# After this number of rounds the remaining definitions count as finite, to save time.
_ROUNDS = 20


def require_finite(schema: Any) -> None:
    """Raise RequestError for a definition that always contains itself."""
    endless = _references(schema)
    for _ in range(_ROUNDS):
        before = len(endless)
        for reference in reversed([*endless]):
            if _is_finite(target(schema, reference), endless):
                del endless[reference]
        if len(endless) == before:
            break
    else:
        return
    if endless:
        problem = f"no finite text matches {[*endless][-1]!r}, because this definition always"
        advice = "make the property that refers to it optional, or allow null as its value"
        raise RequestError(f"{problem} contains itself; {advice}")


def _references(schema: Any) -> dict[str, None]:
    """Return the references of a schema, in the order in which they are found."""
    found: dict[str, None] = {}
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            reference = node.get("$ref")
            if isinstance(reference, str) and f"{reference}/".startswith("#/"):
                if reference not in found:
                    waiting.append(target(schema, reference))
                found[reference] = None
            waiting += inner_schemas(node)
    return found


def _is_finite(definition: Any, endless: Collection[str]) -> bool:
    try:
        return _ends(definition, endless)
    except (AttributeError, TypeError):
        # The value of a keyword has the wrong type. llguidance refuses the schema later.
        return True


def _ends(node: Any, endless: Collection[str]) -> bool:
    """Return False if every text of a schema must contain a text of a definition in `endless`."""
    if not isinstance(node, Mapping) or "const" in node or "enum" in node:
        return True
    if isinstance(node.get("$ref"), str) and node["$ref"] in endless:
        return False
    if not all(_ends(member, endless) for member in node.get("allOf", ())):
        return False
    for key in ("anyOf", "oneOf"):
        if node.get(key) and not any(_ends(member, endless) for member in node[key]):
            return False
    return all(_ends(part, endless) for part in _needed(node))


def _needed(node: Mapping[str, Any]) -> list[Any]:
    """Return the schemas of an object's required properties, or of an array's required items."""
    if node.get("type") in ("object", ["object"]):
        named, others = node.get("properties", {}), node.get("additionalProperties")
        return [named.get(name, others) for name in node.get("required", ())]
    if node.get("type") in ("array", ["array"]) and (least := node.get("minItems", 0)):
        items = node.get("items")
        listed = items if isinstance(items, list) else node.get("prefixItems", [])
        rest = node.get("additionalItems") if isinstance(items, list) else items
        return [*listed[:least], *([rest] if least > len(listed) else [])]
    return []
