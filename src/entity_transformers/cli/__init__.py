"""The command line: one thin subcommand a rule, in the order of the paper's method. Results are
read and written here alone.

Subcommands are looked up by name in the module of their step and imported when they run, so that
``--help`` costs no torch.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import TypeAdapter, ValidationError

from entity_transformers.study.params import Params, parse, read_values, read_yaml
from entity_transformers.study.sections import Seed
from entity_transformers.study.steps.anomalies import Anomaly

FOLDER = {"metavar": "FOLDER", "type": Path, "required": True}
FILE = {"metavar": "FILE", "type": Path, "required": True}


@dataclass(frozen=True)
class Command:
    """A subcommand: the module of this package that holds its function, what it does, its flags and
    the params it may override.
    """

    module: str
    help: str
    flags: dict[str, dict[str, Any]]
    sections: tuple[str, ...] = ()


def _read_seed(text: str) -> int:
    try:
        return TypeAdapter(Seed).validate_python(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.errors()[0]['msg']}") from None


CORPUS = {"--corpus": FOLDER | {"help": "the prepared corpus (results/corpus)"}}
OUTPUT = {"--output": FOLDER | {"help": "where the results go"}}
RUN = {
    "--model": {
        "required": True,
        "metavar": "MODEL",
        "help": "an entry of models",
    },
    "--seed": {
        "required": True,
        "type": _read_seed,
        "help": "seed of the training run (study.seeds)",
    },
}
LM = CORPUS | {"--lm": FOLDER | {"help": "the trained model (results/lm/MODEL/SEED)"}} | RUN
RESULTS = {"--results": FOLDER | {"help": "the study's results"}}

COMMANDS: dict[str, Command] = {
    "check-params": Command("study", "check a params.yaml and print it, every value typed", {}),
    "download-corpus": Command("corpus", "[4.2] fetch the corpus, or find it on disk, and list its files with checksums",
        {"--cache": FOLDER | {"help": "downloads and generated files"}, "--output": FILE | {"help": "the list (JSON)"}}, ("corpus",)),
    "download-lambada": Command("passages", "[4.2] the same for the LAMBADA passages",
        {"--cache": FOLDER | {"help": "downloads and generated files"}, "--output": FILE | {"help": "the list (JSON)"}}, ("lambada",)),
    "prepare-corpus": Command("corpus", "[4.2] read documents with chains, tags and named entities, split by split, and count them",
        {"--source": FILE | {"help": "list of download-corpus"}} | OUTPUT, ("corpus",)),
    "prepare-lambada": Command("passages", "[4.2] read the LAMBADA passages and find their target words",
        {"--source": FILE | {"help": "list of download-lambada"}} | OUTPUT, ("lambada",)),
    "tag-lambada": Command("passages", "[4.2] parts of speech of the target words, by a tagger trained on the training split and scored on dev",
        CORPUS | {"--passages": FOLDER | {"help": "results/passages"}, "--output": FILE | {"help": "lambada_tags.json"}}, ("lambada",)),
    "train-tokenizer": Command("corpus", "[4.1] learn a byte-pair encoder from the training split, or take GPT-2's own",
        CORPUS | {"--cache": FOLDER | {"help": "downloads"}, "--output": FILE | {"help": "tokenizer.json"}}, ("tokenizer", "corpus")),
    "align-corpus": Command("corpus", "[4.2, table 1] encode the words and give every token the entity of its word",
        CORPUS | {"--tokenizer": FILE | {"help": "tokenizer.json"}} | OUTPUT, ("corpus",)),
    "train-lm": Command("lm", "[3, 4.1, figures 2 and 3] train GPT2, GPT2E or a control; called again it goes on where it stopped",
        CORPUS | RUN | {"--work": FOLDER | {"help": "resumable state"}} | OUTPUT
        | {"--tensorboard": {"metavar": "FOLDER", "type": Path, "help": "also write the curve for TensorBoard, below FOLDER/MODEL/SEED"}}, ("lm",)),
    "score-perplexity": Command("perplexity", "[5, table 2] perplexity on the corpus, entities on, off and shuffled", LM | OUTPUT, ("perplexity",)),
    "score-lambada": Command("lambada", "[5, table 3] perplexity and accuracy on LAMBADA",
        LM | {"--passages": FOLDER | {"help": "the prepared passages (results/passages)"}} | OUTPUT, ("perplexity",)),
    "extract-embeddings": Command("embeddings", "[4.1] vectors of words, mentions and entities", LM | OUTPUT, ("embeddings",)),
    "score-similarity": Command("similarity", "[5, table 4] cosine similarity of mentions and entities by part of speech",
        {"--embeddings": FOLDER | {"help": "results/embeddings/MODEL/SEED"}} | RUN | OUTPUT, ("similarity",)),
    "probe-attention": Command("probe", "[6] which attention heads point from a mention to an earlier one of its chain, beside baselines",
        LM | OUTPUT, ("probe",)),
    "train-ner": Command("ner", "[4.1] train the BiLSTM-CRF tagger on the frozen vectors",
        CORPUS | {"--embeddings": FOLDER | {"help": "results/embeddings/MODEL/SEED"}} | RUN | OUTPUT, ("ner",)),
    "score-ner": Command("ner", "[5, table 5] precision, recall and F1 of the tagger, by span and by tag",
        CORPUS | {"--embeddings": FOLDER | {"help": "results/embeddings/MODEL/SEED"}, "--tagger": FILE | {"help": "tagger.safetensors"}} | RUN | OUTPUT, ("ner",)),
    "try-anomaly": Command("anomalies", "short trainings for one of what could have given the paper's odd numbers",
        CORPUS | {"--anomaly": {"required": True, "choices": get_args(Anomaly), "metavar": "ANOMALY", "help": "one of anomalies.candidates"},
                  "--output": FILE | {"help": "its numbers (JSON)"}}, ("anomalies", "lm")),
    "gather-anomalies": Command("anomalies", "the candidates that were tried, in one file",
        {"--anomalies": FOLDER | {"help": "results/anomalies"}, "--output": FILE | {"help": "all numbers (JSON)"}}, ("anomalies",)),
    "train-recall": Command("recall", "[beyond the paper] train one way of reading and learning the memory on synthetic recall, and ask for them",
        {"--model": {"required": True, "metavar": "MODEL", "help": "a row of the table (recall.models)"},
         "--seed": RUN["--seed"] | {"help": "seed of the training run (recall.seeds)"}} | OUTPUT, ("recall",)),
    "gather-recall": Command("recall", "the accuracies of every variant and seed in one file",
        {"--results": FOLDER | {"help": "results/recall"}, "--output": FILE | {"help": "accuracy.json"}}),
    "build-tables": Command("report", "[tables 1 to 5] every table as Markdown and CSV, the paper's numbers beside ours", RESULTS | OUTPUT, ("report",)),
    "build-figures": Command("report", "[figures 2 and 3, appendix] every figure", RESULTS | OUTPUT, ("report",)),
    "build-report": Command("report", "tables, figures and what they show, on one HTML page", RESULTS | {"--output": FILE | {"help": "report.html"}}, ("report",)),
    "export-model": Command("export", "a trained model as a folder to share: weights, tokenizer, code and a model card with its scores", RESULTS | RUN | OUTPUT),
    "show-tables": Command("report", "print the tables in the terminal", {"--tables": FOLDER | {"help": "results/report/tables"}}),
    "resolve-study": Command("study", "write the params.yaml of a study from its study.yaml", {"study": {"type": Path, "metavar": "STUDY", "help": "the study's folder"}}),
    "write-study": Command("study", "the same, and its dvc.yaml", {"study": {"type": Path, "metavar": "STUDY", "help": "the study's folder"}}),
    "write-code": Command("study", "write code.yaml, a digest of each step's code", {"--output": FILE | {"help": "code.yaml"}}),
    "inspect-corpus": Command("corpus", "count documents, chains, mentions, tags and named entities of any supported corpus", {
        "path": {"type": Path, "metavar": "PATH", "help": "a file or folder"},
        "--format": {"default": "auto", "help": "auto, ontonotes (also WinoBias and parquet), ontogum, litbank, lambada or jsonl"},
        "--nested-mentions": {"default": "outermost", "choices": ("outermost", "innermost", "drop"), "help": "policy that the kept counts follow"},
        "--bad-documents": {"default": "skip", "choices": ("strict", "skip"), "help": "stop at a bad document, or leave it out and count it"},
        "--exclude": {"action": "append", "default": [], "metavar": "PATTERN", "help": "document names to leave out (may be repeated)"},
        "--json": {"action": "store_true", "help": "print a JSON object instead of a table"}}),
}  # fmt: skip
WITHOUT_PARAMS = ("inspect-corpus", "show-tables", "resolve-study", "write-study", "write-code")
EXIT_CODES = (
    "exit codes: 0 done; 2 an error, told in one message, a training that can't go on included; 75"
    " a training that a signal or run.max_minutes stopped: run it again to go on; 130 interrupted;"
    " 141 the reader of the output has gone"
)


def main(argv: list[str] | None = None) -> None:
    """Run one subcommand; it ends with one of `EXIT_CODES`. Errors a user can mend are one message."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    # threads that wait by spinning make two jobs on two cores five times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    arguments = vars(make_parser().parse_args(argv))
    name, command = arguments["command"], COMMANDS[arguments.pop("command")]
    try:
        if name not in WITHOUT_PARAMS:
            arguments["params"] = read_params(arguments.pop("params"), arguments)
        function = getattr(
            importlib.import_module(f".{command.module}", __name__), name.replace("-", "_")
        )
        function(**arguments)
    except BrokenPipeError:
        os._exit(141)  # the reader of our output has gone, as in `... | head`
    except KeyboardInterrupt:
        sys.exit(_fail(f"entity-transformers {name}: interrupted", 130))
    except (ValueError, OSError) as error:
        sys.exit(_fail(f"entity-transformers {name}: {error}"))
    except SystemExit as stop:
        sys.exit(_fail(stop.code) if isinstance(stop.code, str) else stop.code)


def _fail(message: str, code: int = 2) -> int:
    print(message, file=sys.stderr)
    return code


def make_parser() -> argparse.ArgumentParser:
    """All subcommands with their flags; ``--params`` first, then files, then one flag for each
    value of its params sections.
    """
    parser = argparse.ArgumentParser(
        "entity-transformers",
        description=(
            "Language models with a memory of a text's entities: the paper's method, step by step."
        ),
        epilog=EXIT_CODES,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help)
        if name not in WITHOUT_PARAMS:
            sub.add_argument(
                "--params",
                type=Path,
                default=Path("params.yaml"),
                metavar="FILE",
                help="the study's params.yaml (default: %(default)s)",
            )
        for flag, options in command.flags.items():
            sub.add_argument(flag, **options)
        for section in command.sections:
            _add_overrides(sub, section)
    return parser


def _add_overrides(parser: argparse.ArgumentParser, section: str) -> None:
    group = parser.add_argument_group(f"values of section {section}", "each overrides params.yaml")
    for key, field in _fields(section).items():
        group.add_argument(
            f"--{section}.{key}",
            dest=f"{section}.{key}",
            default=argparse.SUPPRESS,
            metavar="VALUE",
            type=_read_value,
            help=(field.description or "").replace("%", "%%"),
        )


def _read_value(text: str) -> Any:
    try:
        return read_yaml(text)
    except yaml.YAMLError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a value of YAML: {getattr(error, 'problem', error)}"
        ) from None


def _fields(section: str) -> dict[str, Any]:
    return Params.model_fields[section].annotation.model_fields  # type: ignore[union-attr]


def read_params(path: Path, arguments: dict[str, Any]) -> Params:
    """The study's params with the command line's values put over them (and taken out of
    ``arguments``).

    Paths inside are relative to the file and are resolved here. Anything wrong raises ParamsError.
    """
    values = read_values(path)
    for name in [name for name in arguments if "." in name]:
        section, key = name.split(".")
        value = arguments.pop(name)
        if isinstance(values.setdefault(section, {}), dict):  # `parse` tells what else it is
            values[section][key] = value
    return _resolve_paths(parse(values, str(path)), path.parent)


def _resolve_paths(params: Params, folder: Path) -> Params:
    def place(path: str) -> str:
        return str(folder / Path(path).expanduser())

    def resolve(section: Any, key: str) -> Any:
        value = getattr(section, key)
        return section if value is None else section.model_copy(update={key: place(value)})

    def resolve_entry(entry: dict[str, Any]) -> dict[str, Any]:
        weights = entry.get("initial_weights")
        return entry if weights is None else entry | {"initial_weights": place(weights)}

    paths = {"corpus": "path", "lambada": "path", "tokenizer": "path", "lm": "initial_weights"}
    resolved: dict[str, Any] = {
        name: resolve(getattr(params, name), key) for name, key in paths.items() if params.has(name)
    }
    for name in ("kinds", "models"):
        resolved[name] = {key: resolve_entry(e) for key, e in getattr(params, name).items()}
    return params.model_copy(update=resolved)
