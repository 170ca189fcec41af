"""Names in the JVM that PySpark uses for every column, looked up once.

Theory of operation. `F.col("a")` is three messages to the JVM: what is `functions`, what is its member `col`, call it.
The JVM answers the first question by looking through all of Spark's jars for each of some packages, because a name
without its package may be in any of them. In a run of the pipeline over a few lines that took a sixth of the time. The
names are constant for the life of the JVM, so they are stored where Python looks first: as attributes of the object
that PySpark asks.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark import SparkContext

_NAMES: Final = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.types.Metadata",
)


class _CachedMembers:
    """A class in the JVM whose static methods are looked up once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        setattr(self, name, member)
        return member


def cache_jvm_names(context: SparkContext) -> None:
    """Store these names in PySpark for the life of the JVM."""
    jvm: Any = context._jvm  # noqa: SLF001 - where PySpark asks
    for name in _NAMES:
        if name not in vars(jvm):
            setattr(jvm, name, _CachedMembers(getattr(jvm, name)))
