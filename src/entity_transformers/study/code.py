"""Code by its meaning: a digest of the syntax trees that a step's modules reach by imports.

A comment, a docstring, a line break, the type of an argument and what an error says change no
digest, so they re-run nothing; a change in code that a step reaches, in the seeds or the file
formats too, changes the digest of that step. The
digests are the same under every supported Python (3.11 to 3.13).
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from entity_transformers.artifacts import write_text
from entity_transformers.study.sections import Section

PACKAGE = Path(__file__).resolve().parents[1]
NAME = PACKAGE.name
# What decides no number: what only selects, logs or records, and the values of params.yaml, which
# are compared themselves.
OUTSIDE = (
    "",
    "__main__",
    "cli",  # the parser; the commands of its modules are where steps start
    "kinds",  # the registry; a kind's parameters count for the models of that kind
    "cli.flags",
    "digests",
    "kinds.params",
    "logs",
    "provenance",
    "resolve.registry",  # likewise
    "study",
    "step",
    "steps",
    "report",  # what only shows numbers
)
SHOWN = ("tables", "figures")
"""Functions of a step's module that say what the report shows of it: no part of its code."""


def digest_modules(
    start: Iterable[str], files: Iterable[str] = (), params: Iterable[type] = ()
) -> str:
    """Digest of the modules that those of ``start`` reach, themselves included, of the data files
    that match the patterns ``files`` below the package, and of a kind's ``params`` with the classes
    that it extends.
    """
    names = sorted(reach(start))
    texts = [f"{name} {_summary(name)['digest']}" for name in names]
    for path in sorted(path for pattern in files for path in PACKAGE.glob(pattern)):
        texts.append(f"{path.relative_to(PACKAGE)} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    for one in (base for kind in params for base in kind.__mro__):
        texts += [_dump_class(one)] if issubclass(one, Section) and one is not Section else []
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


@cache
def _dump_class(one: type) -> str:
    return json.dumps(dump(_Plain().visit(ast.parse(inspect.getsource(one)))))


def digest_package() -> str:
    """Digest of all modules of the package."""
    return digest_modules(_modules())


def reach(start: Iterable[str]) -> set[str]:
    """The modules that those of ``start`` import, directly or not, themselves included; names are
    those within the package, NAME.* all modules below one. One that is not there: ValueError.
    """
    todo, found = [], set[str]()
    for name in start:
        below = [other for other in _modules() if other.startswith(name[:-1])]
        todo += below if name.endswith(".*") else [name]
    while todo:
        name = todo.pop()
        if name not in _modules():
            raise ValueError(f"{NAME}.{name}: no such module, but a step starts there")
        if name not in found:
            found.add(name)
            todo += [other for other in _imports(name) if not _is_outside(other)]
    return found


def _is_outside(name: str) -> bool:
    return name in OUTSIDE or name.startswith(("study.", "report."))


def _imports(name: str) -> Iterator[str]:
    """Modules of the package that ``name`` imports, and the packages around them, which Python
    imports first.
    """
    for imported in _summary(name)["imports"]:
        # `from a import b` may name a module or what is in one; the longest name that is a module
        parts = imported.split(".")
        while parts and ".".join(parts) not in _modules():
            parts.pop()
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    if _summary(name)["discovers"]:
        yield from (other for other in _modules() if other.rpartition(".")[0] == name)


@cache
def _modules() -> dict[str, Path]:
    """Every module of the package by its name within it; the package itself is ''."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def _summary(name: str) -> dict[str, Any]:
    """What `_read` says of a module, from work/code.json if its bytes are the same as there."""
    path, known = _modules()[name], _known()
    data = path.read_bytes()
    # what this file itself finds may change as well
    sha = hashlib.sha256(Path(__file__).read_bytes() + data).hexdigest()
    if known.get(name, {}).get("sha") != sha:
        is_package = path.name == "__init__.py"
        known[name] = {"sha": sha} | _read(name if is_package else name.rpartition(".")[0], data)
        atexit.register(_save)
    return known[name]


def _home() -> Path | None:
    checkout = PACKAGE.parents[1]  # an installed package has none
    return checkout / "work" / "code.json" if (checkout / "Snakefile").is_file() else None


@cache
def _known() -> dict[str, dict[str, Any]]:
    home = _home()
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(home.read_text(encoding="utf-8")) if home else None
        if isinstance(known, dict) and all(isinstance(entry, dict) for entry in known.values()):
            return known
    return {}


@cache  # once, however often it is registered
def _save() -> None:
    home = _home()
    if home is not None:
        with contextlib.suppress(OSError):  # then the next process reads all modules again
            write_text(home, json.dumps(_known()))


def _read(home: str, data: bytes) -> dict[str, Any]:
    """Digest and imports of a module in the package ``home``."""
    tree = ast.parse(data)
    plain = _Plain().visit(tree)
    found: list[str] = []
    for node in ast.walk(plain):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            around = [NAME, *home.split(".")] if home else [NAME]
            base = around[: len(around) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            found += [f"{module}.{alias.name}" for alias in node.names]
    inside = {other.partition(".")[2] for other in found if other.split(".")[0] == NAME}
    return {
        "digest": hashlib.sha256(json.dumps(dump(plain)).encode()).hexdigest(),
        "imports": sorted(inside - {""}),
        "discovers": "pkgutil" in found,
    }


class _Plain(ast.NodeTransformer):
    """Takes out what changes nothing that is computed: texts that stand alone (docstrings),
    descriptions of parameters, types of arguments, imports for the type checker, what is raised
    (that it is raised, stays: a number that was refused is none).
    """

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        if node.name in SHOWN:
            return None
        node.returns = None
        # what a step says of itself changes none of its numbers
        node.decorator_list = [one for one in node.decorator_list if not _is_call(one, "step")]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt] | None:
        visited = self.generic_visit(node)
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node.orelse
        return visited

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "Field":
            node.keywords = [word for word in node.keywords if word.arg != "description"]
        return self.generic_visit(node)


def _is_call(node: ast.expr, name: str) -> bool:
    """Is it a call of what is named so?"""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def dump(node: Any) -> Any:
    """A syntax tree as lists and texts, the same in every version of Python: they differ in which
    empty fields there are and in where the text of an f-string is cut.
    """
    if isinstance(node, ast.JoinedStr):
        return ["JoinedStr", *_join_texts(dump(value) for value in node.values)]
    if isinstance(node, ast.AST):
        fields = [
            [name, dump(value)]
            for name, value in ast.iter_fields(node)
            if value not in (None, []) and name != "kind"  # of a text: u or nothing
        ]
        return [type(node).__name__, *fields]
    if isinstance(node, list):
        return [dump(item) for item in node]
    return ascii(node)  # not repr: which characters are printable differs as well


def _join_texts(parts: Iterable[Any]) -> list[Any]:
    joined: list[Any] = []
    for part in parts:
        text = ast.literal_eval(part[1][1]) if part[0] == "Constant" else None
        if text is None:
            joined.append(part)
        elif joined and isinstance(joined[-1], str):
            joined[-1] += text
        elif text:
            joined.append(text)
    return joined
