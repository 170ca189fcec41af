"""Each rule finds what is planted against it, and lets through what it allows."""

from __future__ import annotations

import ast

import pytest

from tools.rules import MAX_LINES, MEMORY, ROOT, VERIFIERS, breaches

EMPTY = dict.fromkeys(MEMORY, "")
CLASS = "from dataclasses import dataclass\n@dataclass(slots=True)\nclass Plan:\n    name: str\n"


def found(path: str, source: str) -> list[str]:
    """The breaches of one file, beside the modules that the rules list."""
    return [str(breach) for breach in breaches({**EMPTY, path: source})]


@pytest.mark.parametrize(
    "path, source, expected",
    [
        ("survey/take.py", "x = 1\n" * (MAX_LINES + 1), "survey/take.py:401: 401 lines"),
        ("protocol/journal.py", CLASS, "protocol/journal.py:3: Plan is not frozen"),
        ("broker/core/agent.py", "import uuid\nmade = uuid.uuid4()\n", "broker/core/agent.py:2: uuid.uuid4()"),
        ("protocol/lake.py", "from uuid import uuid1 as made\n", "protocol/lake.py:1: uuid.uuid1 in a pure room"),
        ("protocol/lake.py", "maker = uuid.uuid4\n", "protocol/lake.py:1: uuid.uuid4 in a pure room"),
        (
            "pipeline/transforms/spans.py",
            "F.current_timestamp()\n",
            "pipeline/transforms/spans.py:1: F.current_timestamp()",
        ),
        ("pipeline/quality/lines.py", "open('x')\n", "pipeline/quality/lines.py:1: open()"),
        ("controller/core/brokers.py", "open('x')\n", "controller/core/brokers.py:1: open()"),
        ("controller/core/brokers.py", "datetime.now(UTC)\n", "controller/core/brokers.py:1: datetime.now()"),
        ("cli/explain.py", "print('x')\n", "cli/explain.py:1: print may"),
        ("survey/take.py", "sys.stdout.write('x')\n", "survey/take.py:1: sys.stdout may"),
        ("survey/take.py", "out = sys.stdout\n", "survey/take.py:1: sys.stdout may"),
        ("survey/take.py", "from rich import print as show\n", "survey/take.py:1: rich.print may"),
        ("cli/main.py", "typer.echo('x')\n", "cli/main.py:1: typer.echo may"),
        ("cli/main.py", "Console(width=80).print('x')\n", "cli/main.py:1: Console()"),
        ("cli/main.py", "Live(drawn)\n", "cli/main.py:1: Live()"),
        ("survey/take.py", "importlib.import_module('kio.x')\n", "survey/take.py:1: importlib.import_module hides"),
        (
            "survey/take.py",
            "from importlib import import_module as load\n",
            "survey/take.py:1: importlib.import_module",
        ),
        ("survey/take.py", "load = importlib.import_module\n", "survey/take.py:1: importlib.import_module hides"),
        ("adapters/http_token.py", "given_hash in self._hashes\n", "adapters/http_token.py:1: given_hash is compared"),
        ("tests/unit/test_take.py", "", "tests/unit/test_take.py:1: ./ has no module"),
        ("tests/unit/broker/core/test_taking.py", "", "tests/unit/broker/core/test_taking.py:1: broker/core/ has no"),
        ("tests/unit/protocol/kafka/test_x.py", "", "tests/unit/protocol/kafka/test_x.py:1: protocol/kafka/ has no"),
        ("tests/unit/survey/test_taking.py", "", "tests/unit/survey/test_taking.py:1: survey/ has no module"),
        ("tests/unit/broker/test_agent.py", "", "tests/unit/broker/test_agent.py:1: broker/ has no module"),
    ],
)
def test_a_breach_is_found(path: str, source: str, expected: str) -> None:
    (text,) = found(path, source)
    assert text.startswith(expected)


@pytest.mark.parametrize(
    "path, source",
    [
        ("tests/unit/survey/conftest.py", "x = 1\n" * (MAX_LINES + 1)),
        ("survey/take.py", "x = 1\n" * MAX_LINES),
        ("survey/take.py", CLASS),
        ("protocol/journal.py", CLASS.replace("slots", "frozen")),
        (min(MEMORY), CLASS),
        ("cli/topics_create.py", "uuid.uuid4()\n"),
        ("cli/render.py", "sys.stdout.write('x')\n"),
        ("cli/demo_show.py", "Console(stderr=True)\n"),
        ("cli/explain_watch.py", "sys.stdout.isatty()\n"),
        ("protocol/journal.py", "x = now\ny = self.today\n"),
        ("protocol/kafka/codec.py", "importlib.import_module('kio.x')\n"),
        ("cli/commands.py", "importlib.import_module('lethe.cli.x')\n"),
        ("tests/unit/broker/core/test_state.py", ""),
        ("tests/unit/broker/core/test_state_of_two_topics.py", ""),
        ("tests/unit/controller/test_core.py", ""),
        ("tests/unit/repository/test_links.py", ""),
    ],
)
def test_what_is_allowed_is_let_through(path: str, source: str) -> None:
    assert found(path, source) == []


class Naive(ast.NodeTransformer):
    """Compares by `==` what was compared by `hmac.compare_digest`."""

    def __init__(self) -> None:
        self.changed = 0

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if ast.unparse(node.func) != "hmac.compare_digest":
            self.generic_visit(node)
            return node
        self.changed += 1
        return ast.Compare(node.args[0], [ast.Eq()], [node.args[1]], lineno=node.lineno, col_offset=0)


@pytest.mark.parametrize("path", VERIFIERS)
def test_a_secret_that_is_compared_in_a_telling_time_is_found(path: str) -> None:
    source = (ROOT / path).read_text()
    naive = Naive()
    spoilt = ast.unparse(naive.visit(ast.parse(source)))
    assert naive.changed > 0
    assert (found(path, source), len(found(path, spoilt))) == ([], naive.changed)


def test_a_module_of_memory_that_is_gone_is_named() -> None:
    gone = min(MEMORY)
    (breach,) = breaches({path: "" for path in MEMORY if path != gone})
    assert gone in breach.text
