"""A digest of code by its meaning, from the syntax trees of the modules that a step imports.

A comment, a docstring, a line break, an argument's type or the wording of an error changes no
digest and so re-runs nothing. A change in any code that a step reaches by imports does.
"""

import ast
import hashlib
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

from entity_transformers.study.sections import Section

PACKAGE = Path(__file__).resolve().parents[1]
OUTSIDE = ("cli", "kinds", "logs", "provenance", "report", "step", "study")
"""Modules and packages that influence no number: they select, log, record and show. The values of
params.yaml are compared directly."""
SHOWN = ("tables", "figures")
"""Functions of a step's module that define what the report shows of it: no part of its code."""


def digest_modules(
    start: Iterable[str], files: Iterable[str] = (), params: Iterable[type] = ()
) -> str:
    """Return the digest of the modules of ``start`` and all that they reach, of the package's data
    files that match the patterns ``files``, and of the parameter classes ``params`` with their
    bases.
    """
    parts = [f"{name} {_dump(name)}" for name in sorted(reach(start))]
    for path in sorted(path for pattern in files for path in PACKAGE.glob(pattern)):
        parts.append(f"{path.relative_to(PACKAGE)} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    for one in (base for kind in params for base in kind.__mro__):
        if issubclass(one, Section) and one is not Section:
            parts.append(ast.dump(_Plain().visit(ast.parse(inspect.getsource(one)))))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def reach(start: Iterable[str]) -> set[str]:
    """Return the modules of ``start`` and all that they import, directly or not, by their names
    within the package. ValueError for a module that does not exist.
    """
    todo, found = [*start], set[str]()
    while todo:
        name = todo.pop()
        if name not in _modules():
            raise ValueError(f"{PACKAGE.name}.{name}: no such module, but a step needs it")
        if name not in found:
            found.add(name)
            todo += _imports(name)
    return found


@cache
def _imports(name: str) -> list[str]:
    """List the package's modules that ``name`` imports, and the packages around them."""
    modules, found = _modules(), set[str]()
    for imported in _imported_names(name):
        package, *parts = imported.split(".")
        for end in range(1, len(parts) + 1) if package == PACKAGE.name else ():
            found.add(".".join(parts[:end]))  # the last part may be an object in a module
        if imported == "pkgutil":  # it looks up the modules below it
            found.update(other for other in modules if other.rpartition(".")[0] == name)
    outside = tuple(f"{one}." for one in OUTSIDE)
    return sorted(one for one in found & modules.keys() if not f"{one}.".startswith(outside))


def _imported_names(name: str) -> Iterator[str]:
    is_package = _modules()[name].name == "__init__.py"
    home = f"{PACKAGE.name}.{name if is_package else name.rpartition('.')[0]}".rstrip(".")
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), home)
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def _modules() -> dict[str, Path]:
    """Return the file of every module by its name within the package, which itself is left out."""
    paths = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
    named = {".".join(path.with_suffix("").parts): PACKAGE / path for path in paths}
    return {name.removesuffix(".__init__"): named[name] for name in named if name != "__init__"}


@cache
def _tree(name: str) -> ast.AST:
    return _Plain().visit(ast.parse(_modules()[name].read_bytes()))


@cache
def _dump(name: str) -> str:
    return ast.dump(_tree(name))


class _Plain(ast.NodeTransformer):
    """Removes what changes nothing that is computed: strings that stand alone (docstrings), types
    of arguments, imports for the type checker, errors' texts, and what a step says of itself.
    """

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.Raise()

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        if node.name in SHOWN:
            return None
        node.returns = None
        node.decorator_list = [
            one for one in node.decorator_list if not ast.unparse(one).startswith("step(")
        ]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt] | None:
        visited = self.generic_visit(node)
        typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse if typing else visited
