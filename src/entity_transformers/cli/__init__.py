"""The command line: one thin subcommand per rule, in the order of the paper's method, and tools.
Results are read and written in this package alone.

A step's commands are its rules; each is a function of the module named like the step, imported when
it is asked for, so that ``--help`` costs no torch. Its flags come from its signature (flags.py).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill
from types import MappingProxyType
from typing import Any

from entity_transformers import __version__
from entity_transformers.artifacts import recorded, seal
from entity_transformers.cli.flags import add_flags, add_overrides
from entity_transformers.kinds import Kind
from entity_transformers.study.libraries import explain
from entity_transformers.study.params import Params, parse
from entity_transformers.study.plan import place_paths
from entity_transformers.study.steps import STEPS
from entity_transformers.study.values import read_values

PAPER = Path(__file__).resolve().parents[1] / "params.yaml"
"""The paper's params.yaml in an installed package; a checkout has it at its root."""
WIDTH = 100  # columns of the help
EXIT_CODES = (
    "exit codes: 0 done; 1 verify found what does not match; 2 an error, in one message, a training"
    " that can't go on included; 75 a training that a signal or run.max_minutes stopped: run it"
    " again to go on; 130 interrupted; 141 the reader of the output has gone"
)


@dataclass(frozen=True)
class Command:
    """A subcommand: the module of this package that has its function, what it does in a line, the
    sections of params.yaml whose values it lets one override, and its heading in the help.
    """

    module: str
    help: str
    sections: tuple[str, ...] = ()
    group: str = ""


_CORPORA, _MODELS, _STUDIES = "corpora", "trained models", "studies"
TOOLS = {
    "inspect-corpus": Command(
        "corpus",
        "count documents, chains, mentions, tags and named entities of any corpus",
        group=_CORPORA,
    ),
    "fetch-data": Command(
        "corpus", "download every pinned data set into one folder", group=_CORPORA
    ),
    "annotate": Command(
        "resolve", "find coreference chains in a text, and write it for a study", group=_CORPORA
    ),
    "fetch-tasks": Command(
        "examples", "download the files of tasks for zero_shot and transfer", group=_CORPORA
    ),
    "inspect-overlap": Command(
        "corpus",
        "compare a training text with evaluation sets; fail where it holds their text",
        group=_CORPORA,
    ),
    "demo": Command(
        "demo",
        "what a model expects of each word of a text, with its memory and without",
        group=_MODELS,
    ),
    "remember": Command(
        "remember", "read a text with a memory of its entities, and write it on", group=_MODELS
    ),
    "export-model": Command(
        "export", "a trained model as a folder to share, with a model card", group=_MODELS
    ),
    "init": Command(
        "init", "write a study of your own corpus: what its text can fill", group=_STUDIES
    ),
    "check-params": Command(
        "study", "check a params.yaml and print it, every value typed", group=_STUDIES
    ),
    "resolve-study": Command(
        "study", "write a study's params.yaml from its study.yaml", group=_STUDIES
    ),
    "write-study": Command("study", "the same, and its dvc.yaml", group=_STUDIES),
    "write-code": Command("study", "write code.json, a digest of each step's code", group=_STUDIES),
    "verify": Command(
        "verify", "compute every checksum of a study's results again, and compare", group=_STUDIES
    ),
    "compare": Command(
        "compare", "the models of two studies on the same test set, with intervals", group=_STUDIES
    ),
    "show-tables": Command("show", "print the tables in the terminal", group=_STUDIES),
}
COMMANDS = {
    rule.replace("_", "-"): Command(
        step.name,
        about,
        ("run", *sorted(step.sections)),
        "the study, step by step, with the paper's sections",
    )
    for step in STEPS.values()
    for rule, about in step.rules.items()
} | TOOLS


def main(argv: Sequence[str] | None = None) -> None:
    """Run one subcommand, which ends with one of `EXIT_CODES`. A user's errors are one message."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    # threads that wait by spinning make two jobs on two cores five times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    words = sys.argv[1:] if argv is None else list(argv)
    if not words:
        make_parser(()).print_help(sys.stderr)
        sys.exit(2)
    name = words[0]
    if not name.startswith("-") and name not in COMMANDS:
        sys.exit(_fail(_suggest(name)))
    try:
        values = _read_defaults(words) if {"-h", "--help"} & {*words} else {}
        arguments = vars(make_parser(words[:1], values).parse_args(words))
        name = arguments.pop("command")
        if argv is not None and arguments.get("processes", 1) > 1:
            raise ValueError("--processes: call it as a command, not from Python")
        if "params" in arguments:
            arguments["params"] = read_params(
                arguments.pop("params"), arguments, for_dvc=name == "check-params"
            )
        run(name, arguments)
    except BrokenPipeError:
        os._exit(141)  # the reader of our output has gone, as in `... | head`
    except KeyboardInterrupt:
        sys.exit(_fail(f"entity-transformers {name}: interrupted", 130))
    except (ValueError, OSError) as error:
        sys.exit(_fail(f"entity-transformers {name}: {error}"))
    except ModuleNotFoundError as error:
        step = STEPS.get(COMMANDS[name].module)
        if not (line := explain(error, step.libraries if step else ())):
            raise
        sys.exit(_fail(f"entity-transformers {name}: {line}"))
    except SystemExit as stop:
        sys.exit(_fail(stop.code) if isinstance(stop.code, str) else stop.code)


def _fail(message: str, code: int = 2) -> int:
    print(message, file=sys.stderr)
    return code


def _suggest(name: str) -> str:
    """What to say of a command that is none."""
    close = get_close_matches(name, COMMANDS, 1)
    hint = f" did you mean {close[0]}?" if close else ""
    return (
        f"entity-transformers: there is no command {name!r}:{hint} `entity-transformers --help`"
        " lists all"
    )


def run(name: str, arguments: dict[str, Any]) -> None:
    """Call a command. What a step's writes below ``output`` gets its digests, which `artifacts`
    checks when another command reads it.
    """
    step = STEPS.get(COMMANDS[name].module) if name not in TOOLS else None
    if step is not None and step.missing:
        raise ValueError(step.missing)
    kind = _find_kind(name, arguments)
    with recorded() as written:
        find_function(name, kind)(**arguments)
    if name not in TOOLS:
        output = Path(arguments["output"]).absolute()
        seal(file for file in written if output in (file, *file.parents) and file.is_file())


def find_function(name: str, kind: Kind | None = None) -> Any:
    """The function of a command, whose module is imported; a kind may have its own."""
    step = COMMANDS[name].module
    own = None if kind is None else kind.start.get(step)
    module = importlib.import_module(f"..{own}" if own else f".{step}", __name__)
    return getattr(module, name.replace("-", "_"))


def _find_kind(name: str, arguments: dict[str, Any]) -> Kind | None:
    """The kind of the model that a command is for; None where it is for none of section models. One
    that can't do what the command's step needs raises KindError.
    """
    params, model = arguments.get("params"), arguments.get("model")
    if params is None or model not in params.models:
        return None
    step = COMMANDS[name].module
    return (params.require(model, step) if step in STEPS else params.model(model)).kind


def make_parser(
    names: Sequence[str], values: Mapping[str, Any] = MappingProxyType({})
) -> argparse.ArgumentParser:
    """All subcommands; the named ones with their flags: those of the function, then one for each
    value of their sections, with what it is in ``values``, where it is there.
    """
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
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, description=command.help)
        if name in names:
            add_flags(sub, find_function(name))
            for section in command.sections:
                add_overrides(sub, section, values)
    return parser


def _list_commands() -> str:
    """All commands under their headings, those of a study in the paper's order."""
    groups: dict[str, list[str]] = {}
    column = 2 + max(map(len, COMMANDS))
    for name, command in COMMANDS.items():
        about = f"{name:{column}}{command.help}"
        line = fill(about, WIDTH, initial_indent="  ", subsequent_indent=" " * (column + 2))
        groups.setdefault(command.group, []).append(line)
    return "\n\n".join("\n".join((f"{group}:", *lines)) for group, lines in groups.items())


def _read_defaults(words: Sequence[str]) -> dict[str, Any]:
    """What a command's values are if none is given: those of its file, as far as it can be read."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--params", type=Path)
    with contextlib.suppress(argparse.ArgumentError, ValueError, OSError):
        return read_values(_find_params(parser.parse_known_args(words)[0].params))
    return {}


def _find_params(path: Path | None) -> Path:
    """The file of the values: without ``path`` params.yaml here, or else the paper's."""
    path = Path("params.yaml") if path is None else path
    absent = path == Path("params.yaml") and not path.exists()
    return PAPER if absent and PAPER.is_file() else path


def read_params(path: Path | None, arguments: dict[str, Any], for_dvc: bool = False) -> Params:
    """The study's params with the command line's values put over them (and taken out of
    ``arguments``). No ``path``: params.yaml here, or else the paper's, which an installed package
    brings, with its paths relative to this folder.

    Paths inside are relative to the file and are resolved here. Anything wrong raises ParamsError,
    also what DVC alone cannot read if ``for_dvc``.
    """
    named, folder = (Path("params.yaml"), Path()) if path is None else (path, path.parent)
    if (path := _find_params(named)) != named:
        logging.info("no params.yaml here: the paper's values, %s", PAPER)
    values = read_values(path, for_dvc)
    for name in [name for name in arguments if "." in name]:
        *sections, key = name.split(".")
        held: Any = values
        for section in sections:
            held = held.setdefault(section, {}) if isinstance(held, dict) else None
        value = arguments.pop(name)
        if isinstance(held, dict):  # `parse` tells what else it is
            held[key] = value
    return parse(place_paths(values, folder, str(values.get("root", "."))), str(path))
