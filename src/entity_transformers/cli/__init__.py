"""The command line: one subcommand that runs any step of a study, and tools.

Each is a function of a module of this package, imported when it is asked for, so that ``--help``
costs no torch. Its flags come from its signature (flags.py).
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
    "exit codes: 0 done; 1 verify found what does not match; 2 an error, in one message, a training"
    " that can't go on included; 75 a training that a signal or run.max_minutes stopped: run it"
    " again to go on; 130 interrupted; 141 the reader of the output has gone"
)


GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "studies": {
        "run": ("run", "run one step of a study"),
        "steps": ("run", "list the steps, or the values that one of them reads"),
        "check-study": ("run", "check a study and print it whole, every value typed"),
        "init": ("init", "write a study of your own corpus: what its text can fill"),
        "report": ("report", "build a study's tables, figures and page from its results"),
        "show-verdicts": ("report", "print the verdict on each claim of the paper"),
        "verify": ("report", "compute every checksum of a study's results again"),
    },
    "corpora": {
        "inspect-corpus": (
            "corpus",
            "count documents, chains, mentions, tags and named entities of any corpus",
        ),
        "fetch-data": ("corpus", "download every pinned data set into one folder"),
        "annotate": ("corpus", "find coreference chains in a text, for a study"),
    },
    "trained models": {
        "demo": ("demo", "what a model expects of each word, with its memory and without"),
        "remember": ("remember", "read a text with a memory of its entities, and write it on"),
        "export-model": ("export", "a trained model as a folder to share, with its card"),
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
        dest="command", required=True, metavar="COMMAND", help="one of those below; its own --help"
    )
    for name, (_, help) in COMMANDS.items():
        sub = commands.add_parser(name, description=help)
        if name in names:
            add_flags(sub, find_function(name))
    return parser


def _list_commands() -> str:
    """All commands under their headings."""
    column, groups = 2 + max(map(len, COMMANDS)), []
    for group, commands in GROUPS.items():
        lines = (f"  {name:{column}}{help}" for name, (_, help) in commands.items())
        groups.append("\n".join((f"{group}:", *lines)))
    return "\n\n".join(groups)
