"""``dlvm completions``: prints a script by which a shell completes commands, options and values.

The script is made from the parser, so it knows what the parser knows. Files complete everywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm.compile import STAGES
from dlvm.targets import TARGETS

from .describing import subcommand


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands, "completions", "print a script by which a shell completes dlvm", "bash"
    )
    parser.add_argument("shell", choices=tuple(SHELLS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the script."""
    print("\n".join(SHELLS[options.shell]([*_commands(options.whole)])))
    return 0


@dataclass(frozen=True)
class Option:
    """An option: its names, what it is for, and its values, if these are known."""

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...]
    takes: bool


@dataclass(frozen=True)
class Command:
    """A subcommand: what it is for, its options, and the words that may stand behind it."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...]

    def offered(self) -> str:
        """All words that may follow, but for values of options."""
        return " ".join((*self.words, *(name for o in self.options for name in o.names)))

    def valued(self) -> Iterator[tuple[str, str]]:
        """The names of options whose values are known, each with these values."""
        for o in self.options:
            if o.values:
                yield from ((name, " ".join(o.values)) for name in o.names)


def _commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    """The subcommands of a parser, which argparse keeps in an action of its own."""
    kept: Any = parser._subparsers  # pyright: ignore[reportPrivateUsage]
    group = kept._group_actions[0]
    known = _values()
    helps = {action.dest: action.help for action in group._choices_actions}
    for name, command in group.choices.items():
        options, words = list[Option](), list[str]()
        for action in command._actions:
            choices, names = tuple(map(str, action.choices or ())), tuple(action.option_strings)
            if not names:
                words += choices
                continue
            values = choices or next((known[n] for n in names if n in known), ())
            options.append(Option(names, action.help or "", values, action.nargs != 0))
        yield Command(name, helps[name], tuple(options), tuple(words))


def _values() -> Mapping[str, tuple[str, ...]]:
    """The values of options whose parser states no choices, as more than these are allowed."""
    from dlvm.exporting.formats import OURS

    return {
        "--stage": (*STAGES, "all"),
        "--target": ("host", *TARGETS),
        "--to": tuple(OURS),
    }


def _names(commands: Sequence[Command]) -> str:
    return " ".join((*(c.name for c in commands), "--help", "--version"))


def _bash(commands: Sequence[Command]) -> Iterator[str]:
    yield from ("_dlvm() {", "  local words", '  if [ "$COMP_CWORD" = 1 ]; then')
    yield f"    words='{_names(commands)}'"
    yield "  else"
    yield '    case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}" in'
    for c in commands:
        yield from (f"      '{c.name} {name}') words='{v}' ;;" for name, v in c.valued())
        yield f"      '{c.name} '*) words='{c.offered()}' ;;"
    yield from ("    esac", "  fi")
    yield '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))'
    yield from ("}", "complete -o default -F _dlvm dlvm")


def _zsh(commands: Sequence[Command]) -> Iterator[str]:
    yield from ("#compdef dlvm", "_dlvm() {")
    yield f"  if (( CURRENT == 2 )); then compadd -- {_names(commands)}; return; fi"
    yield '  case "${words[2]} ${words[CURRENT-1]}" in'
    for c in commands:
        yield from (f"    '{c.name} {name}') compadd -- {v} ;;" for name, v in c.valued())
        yield f"    '{c.name} '*) compadd -- {c.offered()}; _files ;;"
    yield from ("  esac", "}", "compdef _dlvm dlvm")


def _fish(commands: Sequence[Command]) -> Iterator[str]:
    for c in commands:
        yield f"complete -c dlvm -n __fish_use_subcommand -f -a {c.name} -d {_quoted(c.help)}"
        here = f"complete -c dlvm -n '__fish_seen_subcommand_from {c.name}'"
        if c.words:
            yield f"{here} -a '{' '.join(c.words)}'"
        for o in c.options:
            names = " ".join(f"-l {n[2:]}" if n[:2] == "--" else f"-s {n[1:]}" for n in o.names)
            given = f" -xa '{' '.join(o.values)}'" if o.values else " -r" if o.takes else ""
            yield f"{here} {names}{given} -d {_quoted(o.help)}"


def _quoted(text: str) -> str:
    """Text for fish, where a backslash and a quote are all that means something in quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[Sequence[Command]], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""The shells, each with what writes the lines of its script."""
