"""An option is a field of one dataclass, and all other lists of options agree with it."""

from __future__ import annotations

from dataclasses import Field, fields
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any

import pytest

from marith import Engine, Options, Request, Sampling, Stop
from marith.engine.call import CallOptions, ScoringOptions
from marith.options.option_checks import CHECKS
from marith.options.option_fields import OptionFields
from marith.options.persona_file import _OPTIONS
from marith.options.untrusted import OF_A_CALL
from marith.request.checks import fields_by_option
from marith.request.forms.tools import Tools
from marith.request.limits import Limits
from marith.request.other_names import PLACEMENT
from marith.request.request import InspectedOptions
from marith.scoring.weights.placing import Placement
from marith.serving.wire.wire_fields import AskedFields, MarithFields

ARGUMENTS = {"prompt", "formula", "terms", "sampling", "stop", "speculation"}
DRAWN = fields_by_option(Sampling, Stop)
REQUESTED = {field.name: field for field in fields(Request) if field.name not in ARGUMENTS}
OPTIONS = fields_by_option(Request, Tools, Sampling, Stop, Limits)
# Options check these values in another form than the field has.
OTHER_FORM = {"ban", "formula", "logit_bias", "speculation"}
OTHER_TYPE = {"logit_bias", "stop", "stop_token_ids"}
EMPTY: tuple[Any, ...] = (None, (), [], {})


_name = attrgetter("name")


def types(kind: Any) -> dict[str, str]:
    """The types of a typed dictionary as they are written; those of its bases too."""
    return {name: hint.__forward_arg__ for name, hint in kind.__annotations__.items()}


def test_typed_dictionaries_have_the_fields_of_a_request() -> None:
    requested = {name: field.type for name, field in REQUESTED.items()}
    assert types(InspectedOptions) == requested
    assert types(ScoringOptions).items() <= requested.items()
    called = requested.keys() - {"inspect"}
    assert types(CallOptions).keys() == called | (DRAWN.keys() - {"stop"})


def test_a_persona_file_knows_every_option() -> None:
    """`engine` is the only option that is not a field: it is an alias of `loaded_engine`."""
    assert {*Options.model_fields, "engine"} == _OPTIONS


@pytest.mark.parametrize("name", sorted(DRAWN.keys() - OTHER_TYPE))
def test_an_option_has_the_type_of_its_field(name: str) -> None:
    kind = DRAWN[name].type
    assert OptionFields.__annotations__[name] == kind
    assert types(CallOptions)[name] in (kind, f"{kind} | None")


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() & Options.model_fields.keys()))
def test_an_option_has_the_default_and_the_check_of_its_field(name: str) -> None:
    field: Field[Any] = OPTIONS[name]
    default = Options.model_fields[name].get_default(call_default_factory=True)
    assert default == field.default or (default in EMPTY and field.default in EMPTY)
    assert name in OTHER_FORM or CHECKS[name] is field.metadata["check"]


def test_a_body_of_the_server_has_the_options_that_strangers_may_set() -> None:
    sent = {*AskedFields.model_fields, *MarithFields.model_fields} & {*Options.model_fields}
    by_rules_of_its_own = {"model", "formula", "terms", "speculation", "cache_salt", "inspect"}
    assert sent - by_rules_of_its_own == OF_A_CALL - {"timeout"}


def test_an_engine_is_loaded_with_the_options_of_placement() -> None:
    def placement(load: Any) -> dict[str, Parameter]:
        given = signature(load).parameters.items()
        return {name: each for name, each in given if name not in ("model", "tokenizer")}

    loaded = placement(Engine.load)
    assert loaded == placement(Engine.shared)
    assert {*loaded} == {*PLACEMENT} == {*map(_name, fields(Placement) + fields(Limits)), "over"}
    options = {name: Options.model_fields[name] for name in PLACEMENT}
    defaults = {name: each.get_default(call_default_factory=True) for name, each in options.items()}
    assert {name: each.default for name, each in loaded.items()} == defaults
