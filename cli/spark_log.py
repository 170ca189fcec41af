"""Spark's log file during a command: kept where a message names it, else removed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.lake_options import is_submitted, spark_trouble
from lethe.cli.render import note


@contextmanager
def spark_log(*, if_not_started: str = "") -> Iterator[Path | None]:
    """Yield the path of Spark's log file, which stays where a message names it; None if `spark-submit` decides about
    the log.

    Errors of Spark's start or of the lake become Refusal; `if_not_started` is added to the message of the first. Other
    exceptions pass.
    """
    from lethe.pipeline.io.lake import LakeUnusable
    from lethe.pipeline.jobs.executors import NoExecutors
    from lethe.pipeline.session import DRIVER_LOG, SessionUnavailable

    log = Path(tempfile.gettempdir()) / f"lethe-pipeline-{os.getpid()}.log"
    try:
        yield None if is_submitted() else log
    except SessionUnavailable as error:
        raise Refusal(f"{error}{if_not_started}", Exit.USAGE) from error
    except NoExecutors as error:
        log.unlink(missing_ok=True)
        raise Refusal(str(error), Exit.TIMED_OUT) from error
    except LakeUnusable as error:
        log.unlink(missing_ok=True)
        raise Refusal(str(error), Exit.USAGE) from error
    except (Refusal, ValueError, OSError, KeyboardInterrupt) as error:
        if str(log) not in str(error):
            log.unlink(missing_ok=True)
        raise
    except Exception as error:
        note(f"lethe: what Spark said is in {DRIVER_LOG if is_submitted() else log}")
        if refusal := spark_trouble(error):
            raise refusal from error
        raise
    else:
        log.unlink(missing_ok=True)
