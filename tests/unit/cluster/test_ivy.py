"""What Ivy is told and tells, and where the cache is. How it is filled is shown with Kafka: see test_kafka_fetch.py."""

from __future__ import annotations

from pathlib import Path

from lethe.cluster.ivy import cache_directory, is_unreachable, ivy_command, progress


def test_ivy_keeps_everything_in_the_work_directory() -> None:
    command = ivy_command("/j/java", Path("/p/jars"), Path("/c/3.9.1.partial"))
    assert command[0] == "/j/java"
    assert "-Divy.default.ivy.user.dir=/c/3.9.1.partial/ivy" in command
    assert command[-6:-1] == ["-ivy", "/c/3.9.1.partial/ivy.xml", "-confs", "default", "-retrieve"]
    assert command[-1].startswith("/c/3.9.1.partial/jars/[artifact]")
    assert "-settings" not in command
    assert ivy_command("java", Path(), Path(), "/own.xml")[7:9] == ["-settings", "/own.xml"]


def test_progress_names_what_has_come() -> None:
    assert progress("\t[SUCCESSFUL ] org.slf4j#slf4j-api;1.7.30!slf4j-api.jar (89ms)") == "  slf4j-api"
    assert progress("\t[SUCCESSFUL ] org.xerial#snappy;1!snappy.jar(bundle) (89ms)") == "  snappy"
    assert progress("\tfound org.apache.kafka#kafka-clients;2.5.1 in public") is None


def test_the_cache_is_where_the_environment_says() -> None:
    home = Path("~/.cache/lethe/kafka").expanduser()
    assert cache_directory({}) == home
    assert cache_directory({"XDG_CACHE_HOME": "relative"}) == home
    assert cache_directory({"XDG_CACHE_HOME": "/x"}) == Path("/x/lethe/kafka")
    assert cache_directory({"XDG_CACHE_HOME": "/x", "LETHE_KAFKA_CACHE": "/y"}) == Path("/y")


def test_a_repository_that_is_not_reached_is_told_from_one_that_has_it_not() -> None:
    assert is_unreachable("HttpClientHandler: Connect to 127.0.0.1:1 failed: Connection refused")
    assert not is_unreachable("\t:: org.apache.kafka#kafka_2.13;3.9.1: not found\n")
