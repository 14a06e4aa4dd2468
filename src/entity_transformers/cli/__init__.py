"""The command line: one subcommand runs any step of a study, the others are tools.

Each subcommand is a function of a module of this package, which is imported only when it is called,
so that ``--help`` does not load torch. Its flags are derived from its signature (flags.py).
"""

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from io import TextIOWrapper
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

from entity_transformers import __version__
from entity_transformers.cli.flags import add_flags
from entity_transformers.study.libraries import explain

WIDTH = 100  # columns of the help
EXIT_CODES = (
    "exit codes: 0 success; 1 verify found differences; 2 an error, including a training that"
    " cannot continue; 75 a training was stopped by a signal or by run.max_minutes (run it again to"
    " resume); 130 interrupted; 141 the output was closed"
)


GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "studies": {
        "run": ("run", "run one step of a study"),
        "steps": ("run", "list the steps, or the values that a step reads"),
        "check-study": ("run", "check a study and print all its values"),
        "init": ("init", "write a study of your own corpus"),
        "report": ("report", "build the tables, figures and page of a study from its results"),
        "show-verdicts": ("report", "print the verdict on each claim of the paper"),
        "verify": ("report", "recompute every checksum of a study's results"),
    },
    "corpora": {
        "inspect-corpus": ("corpus", "count documents, chains, mentions, tags and named entities"),
        "fetch-data": ("corpus", "download all data sets into one folder"),
        "annotate": ("corpus", "find coreference chains in a text, for use in a study"),
    },
    "trained models": {
        "demo": ("demo", "show what a model expects of each word, with and without memory"),
        "remember": ("remember", "read a text with a memory of its names, and continue it"),
        "export-model": ("export", "write a trained model, with its card, to a folder to share"),
    },
}
"""The subcommands by group: the module here that has the function, and what it does in a line."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one subcommand, which ends with one of `EXIT_CODES`. A user's errors are one message."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as with >&-
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal of ASCII shows what it can of a text
        sys.stdout.reconfigure(errors="replace")
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    # threads that wait by spinning make two jobs on two cores five times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if sys.flags.optimize > 1:
        _fail(": transformers needs its docstrings: unset PYTHONOPTIMIZE, or set it to 1 (not -OO)")
    words = sys.argv[1:] if argv is None else list(argv)
    if not words:
        make_parser(()).print_help(sys.stderr)
        sys.exit(2)
    name = words[0]
    if not name.startswith("-") and name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, 1)
        hint = f" did you mean {close[0]}?" if close else ""
        _fail(f": there is no command {name!r}:{hint} `entity-transformers --help` lists all")
    try:
        arguments = vars(make_parser(words[:1]).parse_args(words))
        name = arguments.pop("command")
        find_function(name)(**arguments)
        _flush()
    except BrokenPipeError:
        os._exit(141)  # the reader of our output has gone, as in `... | head`
    except KeyboardInterrupt:
        _fail(f" {name}: interrupted", 130)
    except (ValueError, OSError) as error:
        _fail(f" {name}: {error}")
    except ModuleNotFoundError as error:
        if not (line := explain(error)):
            raise
        _fail(f" {name}: {line}")


def _flush() -> None:
    """Write what was printed; an OSError of a full disk, which else ends Python in its own way."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
        raise OSError(f"standard output: {error.strerror}") from None


def _fail(message: str, code: int = 2) -> NoReturn:
    print(f"entity-transformers{message}", file=sys.stderr)
    sys.exit(code)


def find_function(name: str) -> Any:
    """The function of a command, whose module is imported."""
    module = importlib.import_module(f".{COMMANDS[name][0]}", __name__)
    return getattr(module, name.replace("-", "_"))


def make_parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """All subcommands; the named ones with the flags of their functions."""
    parser = argparse.ArgumentParser(
        "entity-transformers",
        description=(
            "Language models with a memory of a text's entities: the paper's method, step by step."
        ),
        epilog=f"{_list_commands()}\n\n{fill(EXIT_CODES, WIDTH)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"entity-transformers {__version__}")
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        help="one of those below, each of which has its own --help",
    )
    for name, (_, help) in COMMANDS.items():
        sub = commands.add_parser(name, description=help)
        if name in names:
            add_flags(sub, find_function(name))
    return parser


def _list_commands() -> str:
    column, groups = 2 + max(map(len, COMMANDS)), []
    for group, commands in GROUPS.items():
        lines = (f"  {name:{column}}{help}" for name, (_, help) in commands.items())
        groups.append("\n".join((f"{group}:", *lines)))
    return "\n\n".join(groups)
