"""What does marith do for an application? One screen of answers, measured, in a few seconds."""

from marith.demo.one_screen import run

__all__ = ["run"]
