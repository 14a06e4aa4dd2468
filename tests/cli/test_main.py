"""The command line: what it lists, how it overrides params, what it says of a mistake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from entity_transformers import __version__, runtime
from entity_transformers.cli import COMMANDS, main, make_parser, read_params
from entity_transformers.study.params import Params, ParamsError
from entity_transformers.study.values import read_values

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "studies" / "sample" / "params.yaml"


def parse(words: list[str]) -> Namespace:
    return make_parser(words[:1]).parse_args(words)


def test_help_lists_every_command_in_the_papers_order(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    places = [text.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    groups = list(dict.fromkeys(command.group for command in COMMANDS.values()))
    assert len(groups) == 4
    for group in groups:
        first = next(name for name, command in COMMANDS.items() if command.group == group)
        assert f"\n{group}:\n  {first} " in text
    assert max(map(len, text.splitlines())) <= 100


def test_no_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    text = capsys.readouterr().err
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("train-ml", " did you mean train-lm?"),
        ("exportmodel", " did you mean export-model?"),
        ("x", ""),
    ],
)
def test_a_misspelt_command_is_one_line_with_the_likeliest(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([word, "--params", "none.yaml"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        f"entity-transformers: there is no command {word!r}:{hint} `entity-transformers --help`"
        " lists all\n"
    )


def test_every_command_describes_all_its_flags() -> None:
    """Imports every module of the command line: each command has its function."""
    parser = make_parser(list(COMMANDS))
    for action in parser._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
        assert all(flag.help for flag in action._actions)


def test_help_of_a_command_shows_values_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("inspect-corpus", "train-lm", "remember"):
        with pytest.raises(SystemExit):
            main([name, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "{outermost,innermost,drop}",
        "(default: outermost)",
        "(default: params.yaml here, or else the paper's)",
        "entities that are listed [integer, above 0] (default: 20)",
        "always the likeliest token [number, at least 0] (default: 0.8)",
        "learning rate after the warm-up [constant | cosine]",
        "optimizer steps [integer, above 0, at most 1e+10]",
        "residual connection around entity attention [true | false]",
    ):
        assert part in text


def test_help_shows_the_values_of_the_file_that_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = tmp_path / "params.yaml"
    own.write_text("lm: {learning_rate: 0.002, schedule: cosine}\nkinds: {glove: {epochs: 7}}\n")
    for file in (str(own), str(tmp_path / "absent.yaml")):
        with pytest.raises(SystemExit) as stop:
            main(["train-lm", "--params", file, "--help"])
        assert stop.value.code == 0
        text = " ".join(capsys.readouterr().out.split())
        own_values = ("(default: 0.002)", '(default: "cosine")', "(default: 7)")
        assert all((part in text) == (file == str(own)) for part in own_values)


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"entity-transformers {__version__}\n"


def test_a_value_of_one_kind_is_overridden() -> None:
    words = [*TRAIN, "1", "--kinds.gpt2e.memory_write", "mean", "--lm.layers", "1"]
    arguments = vars(make_parser(words).parse_args(words))
    params = read_params(SAMPLE, arguments)
    assert params.model("gpt2e").lm.memory_write == "mean"
    assert (params.lm.layers, params.model("gpt2").lm.layers) == (1, 1)


def test_flags_override_the_file_and_paths_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(
        SAMPLE.read_text().replace("format: sample\n  path: null", "format: jsonl\n  path: my/text")
    )
    study = str(tmp_path / "params.yaml")
    words = ["prepare-corpus", "--params", study, "--source", "s", "--output", "o"]
    arguments = vars(parse([*words, "--corpus.exclude", "[a, b]"]))
    params = read_params(arguments["params"], arguments)
    assert params.corpus.exclude == ("a", "b")
    assert params.corpus.path == str(tmp_path / "my/text")
    assert not [key for key in arguments if "." in key]


def test_a_bad_override_is_named() -> None:
    with pytest.raises(ParamsError, match=r"lm\.steps: .*'none'"):
        read_params(SAMPLE, {"lm.steps": "none"})


@pytest.mark.parametrize("section", ["lm:", "lm: 5", "lm: [1]"])
def test_an_override_of_a_section_that_holds_no_keys_is_named(tmp_path: Path, section: str) -> None:
    (tmp_path / "params.yaml").write_text(section)
    with pytest.raises(ParamsError, match=r"  lm: .* \(value: "):
        read_params(tmp_path / "params.yaml", {"lm.steps": 5})


TRAIN = [
    "train-lm",
    "--params",
    str(SAMPLE),
    "--corpus",
    "c",
    "--model",
    "gpt2",
    "--work",
    "w",
    "--output",
    "o",
    "--seed",
]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["1", "--lm.steps", "[1"], "argument --lm.steps: '[1' is not a value of YAML: "),
        (["-1"], "argument --seed: '-1': Input should be greater than or equal to 0"),
        (["one"], "argument --seed: 'one': Input should be a valid integer"),
    ],
)
def test_a_bad_flag_is_named(
    capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*TRAIN, *flags])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "entity-transformers check-params: interrupted\n"),
        (SystemExit("train-lm: loss nan"), 2, "train-lm: loss nan\n"),
        (SystemExit(75), 75, ""),
        (ValueError("bad"), 2, "entity-transformers check-params: bad\n"),
    ],
)
def test_every_end_has_its_exit_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    end: BaseException,
    code: int,
    told: str,
) -> None:
    def fail(params: Params) -> None:
        raise end

    monkeypatch.setattr("entity_transformers.cli.study.check_params", fail)
    with pytest.raises(SystemExit) as stop:
        main(["check-params", "--params", str(SAMPLE)])
    assert (stop.value.code, capsys.readouterr().err) == (code, told)


def test_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"{code} " in text for code in (0, 2, runtime.STOPPED, 130, 141))


def test_null_overrides_a_value(tmp_path: Path) -> None:
    study = tmp_path / "params.yaml"
    study.write_text(
        SAMPLE.read_text().replace("text: sample\n  path: null", "text: sample\n  path: x")
    )
    assert read_params(study, {}).lambada.path == str(tmp_path / "x")
    words = ["download-lambada", "--cache", "c", "--output", "o", "--lambada.path", "null"]
    assert read_params(study, vars(parse(words))).lambada.path is None


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gpt9" if word == "gpt2" else word for word in TRAIN] + ["1"])
    assert "model 'gpt9', expected one of gpt2, gpt2e" in capsys.readouterr().err


def test_a_model_that_can_not_what_a_step_needs_is_refused_before_a_file_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [word for flag in ("--corpus", "--lm") for word in (flag, str(tmp_path / "nowhere"))]
    where = ["--params", str(SAMPLE), "--output", str(tmp_path / "out"), "--seed", "1"]
    with pytest.raises(SystemExit) as stop:
        main(["probe-attention", *files, *where, "--model", "lstm"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "entity-transformers probe-attention: models.lstm: kind lstm can causal, encode, state,"
        " windows, but step probe needs attend (attention weights by head (probe))\n"
    )
    assert not (tmp_path / "out").exists()


def test_an_error_is_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["check-params", "--params", str(tmp_path / "params.yaml")])
    assert stop.value.code == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("No such file or directory: name a study's params.yaml")
    )


def test_check_params_prints_typed_values(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check-params", "--params", str(ROOT / "params.yaml")])
    assert json.loads(capsys.readouterr().out)["lm"]["learning_rate"] == 2e-5


def test_inspect_corpus_says_as_json_which_known_sizes_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = "nw/a{part}  0  0  Ada  NNP  *  -  -  -  Ren\u00e9  *  (0)\n"
    for part, split in enumerate(("train", "development", "test")):
        folder = tmp_path / "data" / split / "data" / "english" / "annotations"
        folder.mkdir(parents=True)
        text = f"#begin document (nw/a{part}); part 000\n{row.format(part=part)}\n#end document\n"
        (folder / f"a{part}.v4_gold_conll").write_text(text, encoding="utf-8")
    main(["inspect-corpus", str(tmp_path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {
        row["split"]: row["known"] for row in found["conll2012"] if row["size"] == "chains"
    } == {
        "train": 35143,
        "dev": 4545,
        "test": 4532,
    }
    assert [row["found"] for row in found["conll2012"]] == [1] * 9
    assert not any(row["same"] for row in found["conll2012"])
    main(["inspect-corpus", str(tmp_path)])
    assert "9 of 9 sizes differ" in capsys.readouterr().out


def test_inspect_corpus_counts_a_users_json_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {
        "name": "letter-1",
        "split": "train",
        "words": ["Ada", "met", "her", "friend", "."],
        "mentions": [[0, 1, 7], [2, 3, 7]],
    }
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
    main(["inspect-corpus", str(tmp_path / "mine.jsonl"), "--json"])
    total = json.loads(capsys.readouterr().out)["total"]
    assert (total["documents"], total["words"], total["chains"], total["mentions"]) == (1, 5, 1, 2)
    main(["inspect-corpus", str(tmp_path / "mine.jsonl")])
    assert "mentions" in capsys.readouterr().out


def write_text_and_set(folder: Path, first: int, last: int) -> list[str]:
    """A training text of 400 different words and a document with those from ``first`` on; the
    arguments that compare them.
    """
    (folder / "book.txt").write_text(" ".join(f"w{i}" for i in range(400)))
    row = {"name": "e", "split": "test", "words": [f"w{i}" for i in range(first, last)]}
    (folder / "set.jsonl").write_text(json.dumps(row) + "\n")
    places = ["--evaluation", str(folder / "set.jsonl"), "--cache", str(folder / "cache")]
    return ["inspect-overlap", str(folder / "book.txt"), *places]


def test_inspect_overlap_fails_where_what_is_evaluated_is_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(write_text_and_set(tmp_path, 100, 200))
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert "100.00%" in printed.out
    assert re.search(r"set\.jsonl, e#0: 100\.0% of its text .* expected at most 5%", printed.err)


def test_inspect_overlap_counts_as_json_what_is_shared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*write_text_and_set(tmp_path, 390, 800), "--json"])  # ten words: three runs of eight
    [found] = json.loads(capsys.readouterr().out).values()
    assert (found["documents"], found["shingles"], found["shared"]) == (1, 403, 3)


BOOKS: list[tuple[str, bytes, str]] = [
    ("a.txt", bytes(range(256)) * 8, "UTF-8"),
    ("b.txt", "caf\u00e9 ".encode("latin-1") * 200, "UTF-8"),
    ("c.txt", b"<!DOCTYPE html><html><body>" + b"word " * 200, "web page"),
]


@pytest.mark.parametrize(("name", "data", "message"), BOOKS, ids=[row[0] for row in BOOKS])
def test_a_book_that_is_no_text_is_named_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SystemExit) as stopped:
        main(["inspect-corpus", str(tmp_path), "--format", "text", "--bad-documents", "strict"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert name in error
    assert message in error


def test_every_command_imports_without_snakemake_and_dvc() -> None:
    code = (
        "import sys, importlib\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('snakemake', 'dvc'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from entity_transformers.cli import COMMANDS\n"
        "assert 'torch' not in sys.modules\n"
        "for name, command in COMMANDS.items():\n"
        "    module = importlib.import_module(f'entity_transformers.cli.{command.module}')\n"
        "    assert callable(getattr(module, name.replace('-', '_')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_yaml_s_off_is_a_mode_of_compile() -> None:
    flags = [
        "train-lm",
        "--corpus",
        "c",
        "--model",
        "gpt2",
        "--seed",
        "1",
        "--work",
        "w",
        "--output",
        "o",
        "--lm.compile",
        "off",
    ]
    arguments = vars(parse(flags))
    assert arguments["lm.compile"] is False
    assert read_params(SAMPLE, {"lm.compile": arguments["lm.compile"]}).lm.compile == "off"


@pytest.mark.parametrize(
    ("kind", "command", "read", "told"),
    [
        ("bert", "score-perplexity", [], "can encode, masked, windows, but step perplexity needs"),
        ("electra", "score-lambada", ["--passages", "p"], "step lambada needs causal"),
        ("gpt2", "score-pseudo-perplexity", [], "step pseudo_perplexity needs masked"),
    ],
)
def test_a_kind_that_can_t_do_a_step_is_refused_in_one_line(
    kind: str,
    command: str,
    read: list[str],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before any file is looked for: there is no model and no corpus."""
    values = read_values(SAMPLE)
    values["models"] = {"one": {"kind": kind}}
    values["study"]["steps"] = ["corpus", "lm"]
    values["pseudo_perplexity"] = {"splits": ["dev"], "documents": None, "batch": 2}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(values))
    words = [command, "--params", str(tmp_path / "params.yaml"), "--corpus", "c", "--lm", "m"]
    words += [*read, "--model", "one", "--seed", "1", "--output", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stop:
        main(words)
    (line,) = capsys.readouterr().err.splitlines()
    assert stop.value.code == 2
    assert line.startswith(f"entity-transformers {command}: models.one: kind {kind} can ")
    assert told in line
    assert not (tmp_path / "out").exists()


def test_check_params_refuses_what_dvc_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though the commands of a study, which DVC need not run, take it."""
    path = tmp_path / "params.yaml"
    entry = "  other: {kind: gpt2e, labels: 'shuffled'}\n"
    text = SAMPLE.read_text().replace("models:\n", f"models:\n{entry}", 1)
    path.write_text(text)
    main(["check-params", "--params", str(path)])
    assert '"other"' in capsys.readouterr().out
    path.write_text(text.replace("'shuffled'", "'resolver:names'"))
    with pytest.raises(SystemExit) as end:
        main(["check-params", "--params", str(path)])
    assert end.value.code == 2
    assert "resolver:names stands within brackets or braces" in capsys.readouterr().err
