"""What is wrong with a command line is said before the cluster is asked: at once, with exit code 2, and in words.

ZooKeeper is away here. A command that looked for it first would end with exit code 3, after ten seconds.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lethe.admin.refusal import Exit
from lethe.cli.main import app
from lethe.protocol.lake import IDENTITY, encode_identity

NOBODY = ("--zookeeper", "127.0.0.1:1")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lethe(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, *NOBODY])


def refused(command: str) -> str:
    """What it says."""
    done = lethe(*command.split())
    assert (done.exit_code, done.stdout) == (Exit.USAGE, ""), done.output
    return done.stderr


@pytest.mark.parametrize(
    "arguments,words",
    [
        ("", r"which topics\? Name them, or give --from-candidates"),
        ("--yes --if-exists", r"which topics\? Name them, or give --from-candidates"),
        ("--unreadable", r"which topics\? Name them"),
        ("--unreadable --topic a --wait", "--wait cannot follow what is --unreadable.*leave it out"),
        ("--from-candidates lake --topic a", "--from-candidates says which topics: give neither topics nor"),
        ("--from-candidates lake --unreadable", "give neither topics nor --plan"),
        ("--plan p.json --topic a", "--plan says which topics: give neither topics nor"),
        ("--topic a --allow-writes", "--allow-writes and --accept-unseen go with --plan"),
        ("--topic a( --topic b", r"'a\(' is neither a topic name nor a regular expression"),
        (
            "--topic .* --protect pay*",
            "--protect goes with --from-candidates, and has no effect on named topics",
        ),
        ("--topic a --rate 2", "--rate goes with --from-candidates"),
        ("--topic a --at-once 2", "--at-once goes with --from-candidates"),
        ("--topic a --max-age 2", "--max-age goes with --from-candidates"),
        ("--topic a --allow-unasked", "--allow-unasked goes with --from-candidates"),
        ("--topic a --unreadable --protect b", "--protect goes with --from-candidates"),
    ],
)
def test_options_of_topics_delete_that_do_not_go_together(arguments: str, words: str) -> None:
    assert re.search(words, refused(f"topics delete {arguments}"))


@pytest.mark.parametrize(
    "path,words",
    [
        ("gone", "--from-candidates: gone does not exist: give the lake of `lethe pipeline run`, the table in it"),
        ("empty", "--from-candidates: empty has no Parquet file, nor is it a lake"),
        ("lake", "--from-candidates: the lake lake has no table stale_topic_candidates: run `lethe pipeline run`"),
        ("notes.txt", "--from-candidates: notes.txt is neither a directory nor a .parquet, .jsonl or .csv file"),
        ("other.jsonl", "--from-candidates: other.jsonl, line 1: there is no column 'topic'; is this the table"),
    ],
)
def test_a_path_that_is_no_table_of_candidates(place: Path, path: str, words: str) -> None:
    (place / "empty").mkdir()
    (place / "lake").mkdir()
    (place / "lake" / IDENTITY).write_text(encode_identity(None))
    (place / "notes.txt").write_text("orders\n")
    (place / "other.jsonl").write_text('{"name": "orders"}\n')
    assert words in refused(f"topics delete --from-candidates {path}")


def test_a_table_that_is_too_old(place: Path) -> None:
    """That is a refusal, and no fault of the command line; it needs no cluster either."""
    (place / "table.csv").write_text(
        "topic,topic_id,partitions,replicas,size_bytes,segment_bytes,is_empty,last_write,unwritten_days,evidence,"
        "created_at,survey_id,taken_at\n"
        "orders,,1,1,0,0,true,,40,segments,2024-01-01T00:00:00.000Z,survey-1,2024-03-01T00:00:00.000Z\n"
    )
    done = lethe("topics", "delete", "--from-candidates", "table.csv")
    assert (done.exit_code, done.stdout) == (Exit.NO, "")
    assert "rests on the survey survey-1, which is" in done.stderr


@pytest.mark.parametrize(
    "command,words",
    [
        ("topics list --topic a(", "'a(' is neither a topic name nor a regular expression"),
        ("topics describe --topic a(", "'a(' is neither a topic name nor a regular expression"),
        ("partitions elect a:x --preferred", "'x' in 'a:x' is no partition"),
        ("partitions reassign a:0=1,1", "the replicas of a:0 name a broker twice"),
        ("partitions reassign a:0", "'a:0' is not of the form TOPIC:PARTITION=BROKER"),
        ("partitions reassign a:0=1 a:0=2", "a-0 is named twice"),
        ("partitions reassign --file gone.json", "--file: gone.json does not exist; name an existing file"),
        ("partitions reassign --file notes.txt", "notes.txt"),
        ("partitions reassign --verify gone.json", "--verify: gone.json does not exist; name an existing file"),
        ("partitions reassign --cancel a:x", "'x' in 'a:x' is no partition"),
        ("partitions reassign --list a:x", "'x' in 'a:x' is no partition"),
        ("partitions reassign --topics a --brokers 1,x", "'x' in '1,x' is no broker id"),
        ("partitions reassign --topics a/b --brokers 1", "'a/b' in 'a/b': Topic name is invalid: 'a/b' contains"),
        ("topics delete --plan gone.json", "--plan: gone.json does not exist; name an existing file"),
        ("topics delete --plan notes.txt", "notes.txt is no plan of lethe topics plan-delete"),
        ("doctor --restore gone.jsonl", "--restore: gone.jsonl does not exist; name an existing file"),
        ("doctor --restore notes.txt", "--restore: notes.txt is no backup of lethe doctor"),
        ("explain a/b", "Topic name is invalid: 'a/b' contains"),
        ("explain a --controller-url http://localhost:8080 --without-controller", "give one"),
        ("explain a --controller-token-file gone", "token file gone: does not exist; name an existing file"),
        ("explain a --controller-token-file notes.txt", "token file notes.txt: the token in line 1 is shorter than"),
        ("explain a --controller-ca-file gone", "CA file gone: does not exist; name an existing file"),
        (
            "explain a --controller-ca-file notes.txt",
            "CA file notes.txt: holds no certificate; name a file with",
        ),
        ("rescue --topic a/b", "Topic name is invalid: 'a/b' contains"),
        ("rescue --inter-broker-protocol none", "none"),
        ("survey --textfile counts.txt", "--textfile counts.txt: the collector reads files that end in .prom"),
        ("survey --textfile gone/counts.prom", "--textfile: gone/counts.prom cannot be written: No such file"),
        ("survey --textfile dir.prom", "--textfile: dir.prom cannot be written: Is a directory"),
        ("survey --out notes.txt", "--out: notes.txt is no directory; name one, in which surveys are kept"),
        ("survey --out notes.txt/below", "--out: the survey cannot be kept in notes.txt/below: Not a directory"),
        ("survey --log-dirs gone", "is not there"),
        ("survey --log-dirs logs", "has no meta.properties that says which broker's it is; name the owner"),
        ("survey --log-dir 4=of-3", "is broker 3's, as its meta.properties says, and not broker 4's"),
    ],
)
def test_what_else_needs_no_cluster_to_be_wrong(place: Path, command: str, words: str) -> None:
    (place / "notes.txt").write_text("orders\n")
    for each in ("dir.prom", "logs", "of-3"):
        (place / each).mkdir()
    (place / "of-3" / "meta.properties").write_text("version=0\nbroker.id=3\n")
    before = sorted(place.rglob("*"))
    assert words in refused(command)
    assert sorted(place.rglob("*")) == before


def test_a_survey_that_cannot_be_taken_leaves_no_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lethe.cli.zookeeper_access.CONNECTION_TIMEOUT_MS", 200)
    done = lethe("survey", "--out", "kept/here", "--textfile", "counts.prom")
    assert done.exit_code == Exit.UNREACHABLE, done.output
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        *("doctor", "controller-resign", "brokers list", "brokers describe 1", "brokers forget 1"),
        *("topics delete orders", "topics plan-delete orders", "topics resume-deletions", "topics trash list"),
    ],
)
@pytest.mark.parametrize("variable", ["LETHE_HTTP_TOKEN_FILE", "LETHE_HTTP_CA_FILE"])
def test_files_for_the_controller_are_read_first(
    place: Path, monkeypatch: pytest.MonkeyPatch, command: str, variable: str
) -> None:
    monkeypatch.setenv(variable, str(place / "gone"))
    assert "gone: does not exist; name an existing file" in refused(command)
