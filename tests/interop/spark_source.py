"""Spark's source for Kafka, whose jars are fetched once and kept beside those of Kafka (see `cluster.ivy`).

The versions are pinned, because registries do not always have all that belong together: those of PySpark's own version
were missing when this was written, and these serve it. Without what they need in turn, which PySpark has.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from lethe.cluster.ivy import Artifact, NotFetched, fetch
from lethe.cluster.java import JavaUnusable

SOURCE: Final = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")
JARS: Final = (
    SOURCE,
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def wanted() -> Artifact:
    """What is fetched, for `cluster.ivy`."""
    needs = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{revision}" transitive="false" conf="default->default"/>'
        for organisation, name, revision in JARS
    )
    module = (
        '<ivy-module version="2.0"><info organisation="lethe" module="spark-source" revision="1"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{needs}</dependencies></ivy-module>'
    )
    _, name, revision = SOURCE
    return Artifact("Spark's source for Kafka", f"{name}-{revision}", module, f"{name}-{revision}.jar", "10 MB")


def spark_jars() -> str:
    """The value of `spark.jars`. Skips the test where they cannot be had, and says why."""
    try:
        directory = fetch(wanted(), print, os.environ)
    except (NotFetched, JavaUnusable, OSError) as error:
        told = "\n".join(str(error).splitlines()[-15:])
        pytest.skip(f"Spark's source for Kafka ({', '.join(':'.join(one) for one in JARS)}) cannot be fetched:\n{told}")
    jars = sorted(directory.glob("*.jar"))
    assert len(jars) == len(JARS), f"{directory} holds {[jar.name for jar in jars]}"
    return ",".join(map(str, jars))
