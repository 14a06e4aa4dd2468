"""The documentation as a site: `make docs` puts it below work/site, with nothing of another host.

The pages are the repository's own Markdown, at the places that they have here, so that every link
between them leads where it leads on GitHub. What they link to comes along. Three pages are made
from the code: params.yaml's keys from the types that check them, the commands from their parser,
and the Python interface from its docstrings (mkdocstrings).

    python workflow/site.py            # needs pip install '.[docs]'
    python -m http.server --directory work/site/html    # its search alone wants a server
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

import entity_transformers
from entity_transformers.cli import COMMANDS, make_parser
from entity_transformers.cli.flags import describe
from entity_transformers.kinds import KINDS
from entity_transformers.study.params import Params
from entity_transformers.study.resolve import dump_yaml

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "work" / "site"
START = ("README.md", "docs/README.md")
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
COLUMNS = 100
MODULES = {
    "models.gpt2e.attention": "Entity attention (section 3.1)",
    "models.gpt2e.memory": "The memory of entities (section 3.2)",
    "tasks.perplexity": "Perplexity",
    "tasks.lambada": "LAMBADA",
    "tasks.similarity": "Similarity of mentions",
    "tasks.ner.crf": "The tagger's CRF",
    "tasks.cache": "The continuous cache",
    "tasks.memory.pointer": "The pointer that copies from a memory",
    "tasks.decisions.entity_nlm": "Entity decisions",
    "report.bootstrap": "Intervals",
    "corpus.document": "Documents",
    "models.base": "What a step sees of a model",
    "kinds.base": "Kinds of models",
    "study.steps.base": "Steps",
}
"""Modules whose docstrings are shown, beside the public names."""


def find_pages(start: tuple[str, ...] = START) -> list[Path]:
    """The files that the starting pages link to, and those that these link to, relative to the
    root: no code, which the site has no pages for. FileNotFoundError for a broken link.
    """
    todo, found = [Path(name) for name in start], dict[Path, None]()
    while todo:
        page = todo.pop()
        if page in found:
            continue
        found[page] = None
        if page.suffix == ".md":
            for link in LINK.findall((ROOT / page).read_text()):
                path = (ROOT / page.parent / link).resolve()
                if not path.exists():
                    raise FileNotFoundError(f"{page}: link to {link}, which is not there")
                if path.is_file():
                    todo.append(path.relative_to(ROOT))
    return sorted(found)


def write_params() -> str:
    """Every key of params.yaml: type, the paper's value, what it means and in which unit."""
    values = yaml.safe_load((ROOT / "params.yaml").read_text())
    parts = [
        "# Keys of params.yaml\n\nMade from the types that check them (`study/steps/`, `kinds/`);"
        " the value is that of the paper's study. On the command line a key is a flag:"
        " `--lm.width 64`.\n"
    ]
    for name, field in Params.model_fields.items():
        model: Any = field.annotation
        if name in ("kinds", "models") or not _is_section(model):
            parts.append(f"## `{name}`\n\n{_sentence(field.description or '')}\n")
        else:
            about = _sentence((model.__doc__ or "").strip())
            table = "".join(_rows(model, name, values.get(name, {})))
            parts.append(f"## `{name}`\n\n{about}\n\n{HEAD}{table}")
        if name == "kinds":
            parts += [_write_kind(kind.name, values) for kind in KINDS.values()]
    return "\n".join(parts)


HEAD = "| key | type | value | what |\n|---|---|---|---|\n"


def _is_section(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, BaseModel)


def _write_kind(name: str, values: Mapping[str, Any]) -> str:
    """A kind's own keys: those that section lm has not, or has otherwise."""
    kind = KINDS[name]
    shared = Params.model_fields["lm"].annotation
    fields: Any = getattr(shared, "model_fields", {})
    own = {key for key in kind.params.model_fields if key not in fields}
    can = ", ".join(sorted(kind.can))
    head = f"### `kinds.{name}`\n\n{kind.label} ({kind.year}). It can: {can}.\n"
    if not own:
        return head
    rows = _rows(kind.params, f"kinds.{name}", values["kinds"].get(name, {}), own)
    return f"{head}\n{HEAD}{''.join(rows)}"


def _rows(
    model: type[BaseModel], prefix: str, values: Mapping[str, Any], only: set[str] | None = None
) -> Iterator[str]:
    schemas = model.model_json_schema()["properties"]
    for key, field in model.model_fields.items():
        if only is not None and key not in only:
            continue
        shown = ""
        if key in values:
            shown = dump_yaml({key: values[key]}).removeprefix(f"{key}:").strip()
        elif not field.is_required():
            shown = str(field.get_default(call_default_factory=True))
        cells = (
            f"`{prefix}.{key}`",
            describe(field, schemas[key]),
            f"`{' '.join(shown.split())}`" if shown else "",
            field.description or "",
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def write_commands() -> str:
    """The help of each command, under the headings of `entity-transformers --help`."""
    parser = make_parser(tuple(COMMANDS))
    subs: Any = next(a for a in parser._actions if a.dest == "command")
    parts = ["# Commands\n\nWhat `entity-transformers COMMAND --help` prints.\n"]
    group = None
    for name, command in COMMANDS.items():
        if command.group != group:
            group = command.group
            parts.append(f"## {_sentence(group).removesuffix('.')}\n")
        sub = subs.choices[name]
        sub.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=COLUMNS)
        parts.append(
            f"### `{name}`\n\n{_sentence(command.help)}\n\n```text\n{sub.format_help()}```\n"
        )
    return "\n".join(parts)


def write_interface() -> str:
    """mkdocstrings' marks for the public names and for `MODULES`."""
    lines = ["# Python interface\n", "## Public names\n"]
    lines += [
        f"::: {entity_transformers._HOMES[name]}.{name}\n" for name in entity_transformers.__all__
    ]
    for module, title in MODULES.items():
        lines.append(f"## {title}\n\n::: entity_transformers.{module}\n")
    return "\n".join(lines)


REFERENCE = {
    "params.md": write_params,
    "commands.md": write_commands,
    "python.md": write_interface,
}


def assemble(folder: Path) -> None:
    """Everything that mkdocs reads, in an emptied folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in find_pages():
        target = folder / ("index.md" if page == Path("README.md") else page)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / page, target)
    # the site's front page is README; a folder's README stays its index
    for page in folder.rglob("*.md"):
        page.write_text(_retarget_all(page, folder))
    (folder / "reference").mkdir()
    for name, write in REFERENCE.items():
        (folder / "reference" / name).write_text(write())


def _retarget_all(page: Path, folder: Path) -> str:
    return LINK.sub(lambda found: _retarget(page, found[1], folder), page.read_text())


def _retarget(page: Path, link: str, folder: Path) -> str:
    target = (page.parent / link).resolve()
    if target == folder / "README.md":
        return link.replace("README.md", "index.md")
    return f"{link.rstrip('/')}/README.md" if (target / "README.md").is_file() else link


def build(output: Path) -> None:
    """The site; SystemExit with mkdocs' exit code where it warns of anything."""
    assemble(SITE / "pages")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # of the theme, about its successor
    done = subprocess.run([*command, "--site-dir", str(output)], cwd=ROOT, env=quiet, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    print(f"Site: {output}/index.html")


if __name__ == "__main__":
    build(SITE / "html")
