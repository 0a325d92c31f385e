"""The command ``dlvm``: one file for each subcommand, which describes and runs it.

Exit codes: 0 success; 1 the program or its arguments are wrong, or a check did not hold; 2 the
command line is wrong; 3 dlvm itself failed; 130 interrupted; 141 the reader of the output closed
it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from dlvm.base.errors import CompilerError, UserError
from dlvm.dsl.words.origins import line_of_user, user_origin

from . import (
    ahead,
    bench,
    cache,
    check,
    completions,
    diff,
    doctor,
    export,
    failing,
    launch,
    laws,
    listing,
    opt,
    profile,
    run,
    show,
    tune,
    view,
)
from .output import coloured

COMMANDS = (
    show,
    run,
    launch,
    opt,
    diff,
    view,
    check,
    failing,
    bench,
    profile,
    tune,
    ahead,
    export,
    cache,
    doctor,
    laws,
    listing,
    completions,
)
WRONG, USAGE, OURS, INTERRUPTED, NO_READER = 1, 2, 3, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    outside = user_origin()
    try:
        options = _options(argv)
        code = int(options.run(options))
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  # None if it was closed
            sys.stdout.flush()
        return code
    except SystemExit as leaving:  # argparse exits after help, version or an error
        return leaving.code if isinstance(leaving.code, int) else USAGE
    except BrokenPipeError:
        _forget_output()
        return NO_READER
    except KeyboardInterrupt:
        return INTERRUPTED
    except CompilerError as error:
        return _said("compiler", error, OURS)
    except UserError as error:
        if error.origin == outside:  # the origin is not in a script of the user's
            error.origin = None
        return _said(error.code, error, WRONG)
    except OSError as error:
        return _said("file", error, WRONG)
    except Exception as error:
        if (line := line_of_user(error)) is not None:
            said = f"{type(error).__name__}: {error}"
            return _said("python", UserError(said, origin=line), WRONG)
        return _said("compiler", _recorded(error, sys.argv[1:] if argv is None else argv), OURS)


def _recorded(error: Exception, argv: Sequence[str]) -> CompilerError:
    """The error for a bug in the commands themselves, with a report file."""
    from dlvm.dsl.faults.faults import told

    return told(error, "the command line", argv, {})


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line; a program's arguments may precede and follow options."""
    found = parser()
    options, rest = found.parse_known_args(argv)
    if rest and (any(r.startswith("-") for r in rest) or not hasattr(options, "arguments")):
        found.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.arguments += rest
    return options


def parser() -> argparse.ArgumentParser:
    """The parser of the command line, assembled from the commands."""
    from dlvm import __version__

    parser = argparse.ArgumentParser(
        prog="dlvm",
        description="Staged linear algebra: look at programs, run, check and measure them.",
        epilog="exit codes: 0 success; 1 the program failed or a check did not hold; "
        "2 the command line is wrong; 3 dlvm itself failed",
    )
    parser.add_argument("--version", action="version", version=f"dlvm {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    for command in COMMANDS:
        command.add(commands)
    parser.set_defaults(whole=parser)  # what completions are made from
    return parser


def _said(kind: str, error: Exception, code: int) -> int:
    head = coloured(f"error[{kind}]", "red", sys.stderr)
    print(f"{head}: {error}", file=sys.stderr)
    return code


def _forget_output() -> None:
    """Redirects buffered output that has no reader, so that flushing it at exit is no error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
