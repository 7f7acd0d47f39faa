"""The tools, schemas and templates that the checks ask with."""

from typing import Any, Literal

import pytest
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

# LlamaIndex itself uses what pydantic and its own workflows have given up.
cores_own = pytest.mark.filterwarnings("ignore::DeprecationWarning")

River = Literal["Ebro", "Rhone", "Elbe"]


class Voyage(BaseModel):
    """A voyage on a river."""

    river: River
    days: int = Field(ge=1, le=9)
    upstream: bool


class Choice(BaseModel):
    """The choice of a river."""

    river: River


class Fleet(BaseModel):
    """Some voyages."""

    voyages: list[Voyage] = Field(min_length=1, max_length=2)
    season: Literal["spring", "autumn"]


def depth(river: River) -> str:
    """How deep a river is."""
    return f"{river}: three metres"


def sail(river: River, days: Literal[1, 2, 3]) -> str:
    """Sail on a river for some days."""
    return f"sailed the {river} for {days} days"


async def adepth(river: River) -> str:
    """How deep a river is, from a loop."""
    return depth(river)


def tool(function: Any, **options: Any) -> FunctionTool:
    """A tool over a function."""
    return FunctionTool.from_defaults(fn=function, **options)


DEPTH = tool(depth)
SAIL = tool(sail)
TOOLS = [DEPTH, SAIL]


def template(question: str) -> PromptTemplate:
    """A question as a template without gaps."""
    return PromptTemplate(question.replace("{", "{{").replace("}", "}}"))
