"""`lethe pipeline prepare`: makes Spark start with less work on this machine."""

from __future__ import annotations

import os
import time

from lethe.adapters.user_cache import user_cache
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.lake_options import is_submitted, need_java, the_extra
from lethe.cli.options import AsJson
from lethe.cli.pipeline import stages
from lethe.cli.running import finish_sync
from lethe.cli.spark_log import spark_log


def prepare_command(as_json: AsJson = False) -> None:
    """Make Spark start with less work: keep its classes in a file, as Java has them in memory.

    Later commands that start Spark find the file by themselves. It takes some 200 MB below ~/.cache/lethe
    (XDG_CACHE_HOME). Make it again after an update of Java or PySpark; remove it to undo this.
    """
    finish_sync(lambda: prepare(quiet=as_json), as_json=as_json)


def prepare(*, quiet: bool) -> Answer:
    """Make the archive. Raises Refusal and OSError."""
    if is_submitted():
        raise Refusal("spark-submit starts Java itself: run lethe pipeline prepare without it", Exit.USAGE)
    with the_extra():
        from lethe.pipeline.io.lock import Locked
        from lethe.pipeline.jobs.prepare import NotMade, make_archive
    need_java()
    began = time.monotonic()
    with spark_log() as log, stages(quiet=quiet) as stage:
        assert log is not None
        try:
            archive = make_archive(user_cache(os.environ), log, stage)
        except NotMade as error:
            raise Refusal(str(error), Exit.NO) from error
        except Locked as error:
            raise Refusal(str(error), Exit.BUSY) from error
    size, took_s = archive.stat().st_size, time.monotonic() - began
    said = f"{archive}: {size / 1e6:,.0f} MB, in {took_s:.0f} s; Java is given it whenever Spark starts"
    return Answer({"archive": os.fspath(archive), "size_bytes": size}, (said,))
