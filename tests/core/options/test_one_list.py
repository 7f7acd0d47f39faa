"""An option has one list: a field of a dataclass. What is written again has to agree with it."""

from __future__ import annotations

import inspect
from dataclasses import Field, fields
from typing import Any

import pytest

from marith import Engine, Options, Request, Sampling, Stop
from marith.engine.call import CallOptions, ScoringOptions
from marith.options.option_checks import CHECKS
from marith.options.untrusted import OF_A_CALL
from marith.request.checks import fields_by_option
from marith.request.limits import Limits
from marith.request.other_names import PLACEMENT
from marith.request.request import InspectedOptions
from marith.serving.wire.wire_fields import AskedFields, MarithFields

ARGUMENTS = {"prompt", "formula", "terms", "sampling", "stop", "speculation"}
DRAWN = fields_by_option(Sampling, Stop)
REQUESTED = {field.name: field for field in fields(Request) if field.name not in ARGUMENTS}


def types(kind: Any) -> dict[str, str]:
    """The types of a typed dictionary as they are written; those of its bases too."""
    return {name: hint.__forward_arg__ for name, hint in kind.__annotations__.items()}


def test_typed_dictionaries_have_the_fields_of_a_request() -> None:
    requested = {name: field.type for name, field in REQUESTED.items()}
    assert types(InspectedOptions) == requested
    assert types(ScoringOptions).items() <= requested.items()
    called = requested.keys() - {"inspect"}
    assert types(CallOptions).keys() == called | (DRAWN.keys() - {"stop"})


@pytest.mark.parametrize("name", [*DRAWN, *fields_by_option(Limits)])
def test_an_option_has_the_default_and_the_check_of_its_field(name: str) -> None:
    field: Field[Any] = (DRAWN | fields_by_option(Limits))[name]
    default = Options.model_fields[name].get_default(call_default_factory=True)
    assert default == field.default or (field.default == () and not default)
    assert CHECKS[name] is field.metadata["check"] or name == "logit_bias"


def test_a_body_of_the_server_has_the_options_that_strangers_may_set() -> None:
    sent = {*AskedFields.model_fields, *MarithFields.model_fields} & {*Options.model_fields}
    by_rules_of_its_own = {"model", "formula", "terms", "speculation", "cache_salt", "inspect"}
    assert sent - by_rules_of_its_own == OF_A_CALL - {"timeout", "steer_tools"}


@pytest.mark.parametrize("load", [Engine.load, Engine.shared])
def test_an_engine_is_loaded_with_the_options_of_placement(load: Any) -> None:
    given = {*inspect.signature(load).parameters} - {"model", "tokenizer"}
    assert given == {*PLACEMENT}
    limits = {field.name: field.default for field in fields(Limits)}
    defaults = {name: p.default for name, p in inspect.signature(load).parameters.items()}
    assert limits.items() <= defaults.items()
