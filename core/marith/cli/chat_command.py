"""The command `marith chat`."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from marith import MarithError, RequestError, escape_control_chars
from marith.cli.application import app, clear_errors
from marith.cli.files import for_terminal
from marith.cli.generate_command import load, read_options
from marith.cli.options import asked, defined, drawn, named_terms, placed, takes
from marith.cli.why_command import inspection_of, print_inspection
from marith.errors import valid_options

if TYPE_CHECKING:
    from marith import Inspection, Options

Messages = Sequence[Mapping[str, str]]
Why: TypeAlias = "Callable[[], Inspection]"  # raises MarithError
LIKELIEST = 3  # the number of likeliest tokens that /why shows
HELP = """\
/persona [NAME]        answer with this persona; without a name, list them
/term NAME=PROMPT      define NAME as a system prompt
/define NAME=FORMULA   define NAME as a formula
/formula [TEXT]        sample from this formula; without one, from the persona's own
/seed [NUMBER]         equal seeds give equal answers; without a number, use a random seed
/why                   show why each token of the last answer is there
/help, /quit"""


@app.command()
@takes(asked, defined, drawn, placed)
def chat(**options: Any) -> None:
    """Talk with a formula. /help lists the commands; Ctrl-D ends the chat."""
    with clear_errors():
        groups = *signature(drawn).parameters, *signature(placed).parameters
        values = {name: options[name] for name in ("model", "formula", *groups)}
        values["terms"] = named_terms(options["term"], options["define"]) or None
        chosen = {name: value for name, value in values.items() if value is not None}
        # /seed can change the seed, so it is not one of the fixed options.
        typed = {"seed": chosen.pop("seed")} if "seed" in chosen else {}
        answers = Answers(options["file"], options["persona"], chosen)
        talk = Conversation(answers, typed, options["system"])
        talk.introduce()
        load(answers.options)
        talk.run()


class Answers:
    """The engine that answers, and the formulas of a persona file if there is one.

    Raises MarithError for invalid options.
    """

    def __init__(self, path: Path | None, persona: str | None, values: Mapping[str, Any]) -> None:
        self.options = read_options(path, persona, values)
        self._path = path
        self._values = {name: value for name, value in values.items() if name != "formula"}
        self._asked: tuple[Options, Messages] | None = None
        self._tokens: list[int] = []

    def stream(self, messages: Messages, overrides: Mapping[str, Any]) -> Iterator[str]:
        """Yield the text of an answer. `overrides` replace options. Raises MarithError."""
        options = self._over(overrides)
        self._asked, self._tokens = (options, messages), []
        for chunk in options.submit(messages):
            self._tokens += chunk.tokens
            yield chunk.text

    def answered(self) -> Why:
        """Return a function that inspects the last answer with the options of that answer."""
        assert self._asked is not None, "an answer was streamed"
        return partial(inspection_of, *self._asked, self._tokens, LIKELIEST)

    def personas(self) -> list[str]:
        """Return the names of the file's formulas."""
        return [*self.options.file.formulas] if self.options.file is not None else []

    def choose(self, persona: str) -> None:
        """Answer with this formula of the file from now on. Raises MarithError."""
        if self._path is None:
            raise RequestError("there is no persona file; start with --file")
        self.options = read_options(self._path, persona, self._values)

    @property
    def name(self) -> str:
        """The name of the file's formula that answers, or else the name of the model."""
        file = self.options.file
        return (file and file.formula_name) or str(self.options.model)

    def formula(self, overrides: Mapping[str, Any]) -> str:
        """Return the formula of the options. Loads nothing. Raises FormulaError."""
        return self._over(overrides).formula

    def _over(self, overrides: Mapping[str, Any]) -> "Options":
        with valid_options():
            return self.options.overridden(overrides)


class Conversation:
    """Reads lines, keeps messages, and prints answers. `overrides` are options of every answer."""

    def __init__(
        self, answers: Answers, overrides: Mapping[str, Any], system: str | None = None
    ) -> None:
        self._answers, self._overrides = answers, dict(overrides)
        self._system = [{"role": "system", "content": system}] if system else []
        self._messages: list[dict[str, str]] = []
        self._reason: Why | None = None
        self._commands: dict[str, Callable[[str], None]] = {
            "persona": self._persona,
            "formula": lambda text: self._change(formula=text or None),
            "term": lambda text: self._name("/term NAME=PROMPT", text, str),
            "define": lambda text: self._name("/define NAME=FORMULA", text, _as_formula),
            "seed": self._seed,
            "why": self._why,
            "help": lambda _: typer.echo(HELP),
        }

    def introduce(self) -> None:
        """Print the name and the formula that answer. Raises MarithError for an invalid formula."""
        self._show(self._overrides)
        names = self._answers.personas()
        if names and self._answers.name not in names:
            typer.echo(
                f"/persona NAME chooses one of {escape_control_chars(', '.join(names))}", err=True
            )

    def run(self) -> None:
        """Talk until the input ends or the user types /quit."""
        with suppress(ImportError):
            import readline  # noqa: F401 (`input` can then edit lines and recall earlier lines)
        if sys.stdin.isatty():
            typer.echo("/help lists the commands; Ctrl-D ends the chat.")
        while (line := self._read()) is not None:
            if not line:
                continue
            if line in ("/quit", "/exit"):
                return
            try:
                if line.startswith("/"):
                    self._command(line[1:])
                else:
                    self._messages.append({"role": "user", "content": line})
                    self._answer()
            except MarithError as error:
                typer.echo(f"marith: {for_terminal(str(error))}", err=True)
            except KeyboardInterrupt:
                # Ctrl-C ends the answer, and the conversation goes on.
                typer.echo()

    def _read(self) -> str | None:
        """Return the next line, or None at the end of the input."""
        try:
            return input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return None
        except KeyboardInterrupt:
            typer.echo()
            return ""

    def _answer(self) -> None:
        """Answer the last message. If the answer fails, the message is dropped."""
        pieces: list[str] = []
        try:
            for text in self._answers.stream([*self._system, *self._messages], self._overrides):
                pieces.append(text)
                typer.echo(for_terminal(text), nl=False)
                sys.stdout.flush()
        except MarithError:
            self._messages.pop()
            raise
        finally:
            if pieces:
                typer.echo()
        self._reason = self._answers.answered()
        self._messages.append({"role": "assistant", "content": "".join(pieces)})

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise RequestError(f"there is no command /{name}; /help lists the commands")
        command(rest.strip())

    def _persona(self, name: str) -> None:
        if name:
            self._answers.choose(name)
            self._change(formula=None)
            return
        names = self._answers.personas()
        marked = (f"{each} (now)" if each == self._answers.name else each for each in names)
        typer.echo(escape_control_chars(", ".join(marked)) or "there are no personas")

    def _change(self, **changed: Any) -> None:
        """Change options from now on; None resets an option.

        Raises MarithError for an invalid option, and then changes nothing.
        """
        overrides = {name: v for name, v in {**self._overrides, **changed}.items() if v is not None}
        self._show(overrides)
        self._overrides = overrides

    def _show(self, overrides: Mapping[str, Any]) -> None:
        formula, seed = self._answers.formula(overrides), overrides.get("seed")
        parts = [formula] * bool(formula) + ([] if seed is None else [f"seed {seed}"])
        typer.echo(
            escape_control_chars(": ".join([self._answers.name, ", ".join(parts)])), err=True
        )

    def _name(self, form: str, text: str, to_term: Callable[[str], Any]) -> None:
        name, equals, meaning = text.partition("=")
        if not equals:
            raise RequestError(f"write a term as {form}, not {text!r}")
        term = {name.strip(): to_term(meaning.strip())}
        self._change(terms={**self._overrides.get("terms", {}), **term})

    def _seed(self, text: str) -> None:
        try:
            seed = int(text) if text else None
        except ValueError:
            raise RequestError(f"a seed must be a whole number, not {text!r}") from None
        self._change(seed=seed)

    def _why(self, _: str) -> None:
        if self._reason is None:
            raise RequestError("there is no answer yet")
        print_inspection(self._reason(), every=False)


def _as_formula(text: str) -> dict[str, str]:
    return {"formula": text}
