"""The command ``dlvm``: each of its commands is one file here, which adds and runs itself.

Exit codes: 0 all is well; 1 the program, its arguments or a check is wrong; 2 the command line
is; 3 dlvm itself; 130 interrupted; 141 whoever read the output has gone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from dlvm.base.errors import CompilerError, UserError
from dlvm.dsl.words.origins import line_of_user, user_origin

from . import bench, cache, check, diff, doctor, failing, listing, opt, run, show

COMMANDS = (show, run, opt, diff, check, failing, bench, cache, doctor, listing)
WRONG, USAGE, OURS, INTERRUPTED, NO_READER = 1, 2, 3, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    outside = user_origin()
    try:
        options = _options(argv)
        code = int(options.run(options))
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison]  # it may be closed
            sys.stdout.flush()
        return code
    except SystemExit as leaving:  # argparse: help, version or a mistake
        return leaving.code if isinstance(leaving.code, int) else USAGE
    except BrokenPipeError:
        _forget_output()
        return NO_READER
    except KeyboardInterrupt:
        return INTERRUPTED
    except CompilerError as error:
        return _said("compiler", error, OURS)
    except UserError as error:
        if error.origin == outside:  # a command line has no lines of the user's
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
    """A fault of the commands themselves, with a file that says what is known of it."""
    from dlvm.dsl.faults.faults import told

    return told(error, "the command line", argv, {})


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    """What is asked; arguments of programs may stand before and after options."""
    found = parser()
    options, rest = found.parse_known_args(argv)
    if rest and (any(r.startswith("-") for r in rest) or not hasattr(options, "arguments")):
        found.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.arguments += rest
    return options


def parser() -> argparse.ArgumentParser:
    """The command line, as its commands describe it."""
    from dlvm import __version__

    found = argparse.ArgumentParser(
        prog="dlvm",
        description="Staged linear algebra: look at programs, run, check and measure them.",
        epilog="exit codes: 0 well; 1 the program or a check is wrong; 2 the command line; 3 dlvm",
    )
    found.add_argument("--version", action="version", version=f"dlvm {__version__}")
    commands = found.add_subparsers(title="commands", metavar="command", required=True)
    for command in COMMANDS:
        command.add(commands)
    return found


def _said(kind: str, error: Exception, code: int) -> int:
    print(f"error[{kind}]: {error}", file=sys.stderr)
    return code


def _forget_output() -> None:
    """What is still in the buffers has no reader, and must not be an error at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
