"""Check the rules of CONTRIBUTING.md that ruff, mypy and import-linter cannot express.

    python -m tools.rules    print each breach as PATH:LINE: TEXT; exit with 1 if there is one

Each rule is a generator of `Breach` and has a test with a planted breach in tests/unit/tools/test_rules.py.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
MAX_LINES: Final = 400
PURE: Final = ("protocol/", "controller/core/", "broker/core/")
"""Rooms whose results depend on their arguments only. import-linter forbids the modules; `impure` forbids the names."""
PURE_FUNCTIONS: Final = (*PURE, "pipeline/transforms/", "pipeline/quality/")
MEMORY: Final = frozenset(
    f"{room}/{module}.py"
    for room, modules in {
        "controller/core": (
            "cache_memory",
            "client_wait_memory",
            "cluster_state",
            "context",
            "debt_memory",
            "deletion_memory",
            "trash_memory",
            "epoch_raise_history",
            "pace_memory",
            "takeover_history",
            "topic",
        ),
        "broker/core": ("due", "metadata_cache", "removal", "state"),
    }.items()
    for module in modules
)
"""Modules of the pure rooms that hold the memory of a controller or of an agent: their dataclasses are mutable."""
IMPURE: Final = frozenset(
    {"uuid1", "uuid4", "now", "utcnow", "today", "current_timestamp", "current_date", "rand", "randn", "open", "input"}
)
"""Names that no pure room calls."""
IMPURE_VALUES: Final = frozenset({"uuid1", "uuid4", "utcnow"})
"""Names that no pure room passes on either, as in `default_factory=uuid4`. The other names are common as attributes."""
RENDERER: Final = "cli/render.py"
PRINTING: Final = frozenset({"print", "pprint", "rich.print", "rich.print_json", "typer.echo", "typer.secho"})
STANDARD_OUTPUT: Final = frozenset({"sys.stdout", "sys.__stdout__"})
HARMLESS: Final = ("isatty", "fileno")
"""Attributes of standard output that write nothing."""
IMPORTERS: Final = ("protocol/kafka/codec.py", "cli/commands.py")
"""kio's schemas; the commands of `cli`, whose modules import-linter reads one by one."""
VERIFIERS: Final = (
    "adapters/http_token.py",
    "adapters/security/exchanges.py",
    "protocol/security/digest_md5.py",
    "protocol/security/scram.py",
)
"""Modules that compare what a peer has sent with a secret."""
SECRETS: Final = re.compile(r"(?:^|_)(?:hash(?:es)?|key|nonce|password|proof|secret|signature)$")
UNMIRRORED: Final = ("tests/unit/deploy/", "tests/unit/repository/")
"""Unit tests of files that are not Python, and of rules that hold across rooms."""


_EQUALITIES: Final = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


class Breach(NamedTuple):
    """A rule that a file breaks. `line` counts from 1."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        """The form that editors and terminals can follow."""
        return f"{self.path}:{self.line}: {self.text}"


def too_long(path: str, source: str) -> Iterator[Breach]:
    """A source file has at most 400 lines. Tests are exempt."""
    lines = source.count("\n")
    if lines > MAX_LINES and not path.startswith("tests/"):
        yield Breach(path, MAX_LINES + 1, f"{lines} lines; a source file has at most {MAX_LINES}")


def mutable(path: str, tree: ast.Module) -> Iterator[Breach]:
    """A dataclass of a pure room is frozen, unless its module is listed as memory."""
    if not path.startswith(PURE) or path in MEMORY:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for decorator in map(ast.unparse, node.decorator_list):
                if decorator.startswith(("dataclass", "dataclasses.dataclass")) and "frozen=True" not in decorator:
                    yield Breach(path, node.lineno, f"{node.name} is not frozen, and {path} is not listed as memory")


def impure(path: str, tree: ast.Module) -> Iterator[Breach]:
    """Pure rooms open no file, read no clock and make no identity."""
    if path.startswith(PURE_FUNCTIONS):
        called = {id(node.func): name for node, name in _calls(tree)}
        for node, name in _mentions(tree):
            last = name.rpartition(".")[2]
            if last in (IMPURE if id(node) in called or isinstance(node, ast.ImportFrom) else IMPURE_VALUES):
                text = f"{name}()" if id(node) in called else name
                yield Breach(path, node.lineno, f"{text} in a pure room: take the result as an argument")


def printing(path: str, tree: ast.Module) -> Iterator[Breach]:
    """Only `cli/render.py` writes to standard output."""
    if path == RENDERER or path.startswith(("tests/", "tools/", "benchmarks/")):
        return
    harmless = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in HARMLESS}
    for node, name in _mentions(tree):
        if name in PRINTING or (name in STANDARD_OUTPUT and id(node) not in harmless):
            yield Breach(path, node.lineno, f"{name} may write to standard output: only {RENDERER} does")
    for call, name in _calls(tree):
        keywords = {keyword.arg for keyword in call.keywords}
        if (name == "Console" and not keywords & {"stderr", "file"}) or (name == "Live" and "console" not in keywords):
            yield Breach(path, call.lineno, f"{name}() may write to standard output: only {RENDERER} does")


def dynamic_import(path: str, tree: ast.Module) -> Iterator[Breach]:
    """import-linter sees `import` statements only, so few modules use `import_module`."""
    if path in IMPORTERS or path.startswith(("tests/", "tools/", "benchmarks/")):
        return
    for node, name in _mentions(tree):
        if name.rpartition(".")[2] in ("import_module", "__import__"):
            yield Breach(
                path, node.lineno, f"{name} hides an import from import-linter: only {' and '.join(IMPORTERS)} use it"
            )


def timed(path: str, tree: ast.Module) -> Iterator[Breach]:
    """Secrets are compared by `hmac.compare_digest`, whose time does not tell how much of a guess was right."""
    if path not in VERIFIERS:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(each, _EQUALITIES) for each in node.ops):
            secret = next((name for each in (node.left, *node.comparators) for name in _secrets(each)), None)
            if secret is not None:
                yield Breach(path, node.lineno, f"{secret} is compared in a telling time: use hmac.compare_digest")


def _secrets(node: ast.expr) -> Iterator[str]:
    """Yield the names of secrets whose bytes the expression has; a length has none."""
    match node:
        case ast.Call(func=ast.Name(id="len")):
            return
        case ast.Call(func=ast.Attribute(value=value)):
            yield from _secrets(value)
        case ast.Call(args=[first, *_]):
            yield from _secrets(first)
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            if SECRETS.search(name):
                yield name
        case _:
            pass


def without_twin(paths: Sequence[str]) -> Iterator[Breach]:
    """A unit test is named for its module: `tests/unit/ROOM/test_MODULE.py` or `test_MODULE_ASPECT.py`."""
    modules = {str(PurePosixPath(path).with_suffix("")) for path in paths if path.endswith(".py")}
    modules |= {str(PurePosixPath(module).parent) for module in modules}
    for path in map(PurePosixPath, paths):
        if not path.is_relative_to("tests/unit") or not path.name.startswith("test_"):
            continue
        if str(path).startswith(UNMIRRORED):
            continue
        room = path.parent.relative_to("tests/unit")
        room = PurePosixPath("tests/fakes") if str(room) == "fakes" else room
        words = path.stem.removeprefix("test_").split("_")
        names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
        if not any(str(room / name) in modules for name in names):
            yield Breach(str(path), 1, f"{room}/ has no module of that name")


def unlisted(paths: Sequence[str]) -> Iterator[Breach]:
    """Each module that is listed as memory exists."""
    for path in sorted(MEMORY.difference(paths)):
        yield Breach("tools/rules.py", 1, f"MEMORY lists {path}, which does not exist")


def breaches(sources: dict[str, str]) -> list[Breach]:
    """Every breach in `sources`, the text of each Python file by its path below the root."""
    found = [*without_twin(list(sources)), *unlisted(list(sources))]
    for path, source in sources.items():
        tree = ast.parse(source)
        found += too_long(path, source)
        for rule in (mutable, impure, printing, dynamic_import, timed):
            found += rule(path, tree)
    return sorted(found)


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Each call whose function has a name, with that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield node, ast.unparse(node.func)


def _mentions(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.ImportFrom, str]]:
    """Each name that is read or imported from a module, whole: `uuid.uuid4`. Other names given to it change nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for imported in node.names:
                yield node, f"{node.module}.{imported.name}"
        elif isinstance(node, ast.Name | ast.Attribute):
            yield node, ast.unparse(node)


def main() -> int:
    """Print the breaches of the repository's files. Return the exit code."""
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"),
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    found = breaches({path: (ROOT / path).read_text() for path in listed if (ROOT / path).exists()})
    for breach in found:
        print(breach)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
