"""Serves what surveys count to Prometheus: takes one every SURVEY_EVERY_S seconds, and shows the newest at /metrics.

    python survey_metrics.py [PORT]

Elsewhere a timer takes the surveys and the node exporter serves their file (deploy/systemd). Before the first survey
has ended the answer is 503: Prometheus shows the target as down, and not a cluster where nothing is left over. A survey
that fails leaves the file as it is; the alert LetheSurveyStale looks at its timestamp.
"""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

COUNTS = Path(os.environ.get("SURVEY_COUNTS", "/tmp/lethe.prom"))
EVERY_S = float(os.environ.get("SURVEY_EVERY_S", "300"))
AGAIN_S = 15.0
"""After a survey that failed, as one does before ZooKeeper is up."""
SEEN = (0, 1, 3)
"""Exit codes of a survey that was taken: nothing is left over, something is, not everything could be seen."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET /metrics."""

    def do_GET(self) -> None:
        if self.path != "/metrics":
            self.send_error(404, "only /metrics is here")
            return
        try:
            body = COUNTS.read_bytes()
        except FileNotFoundError:
            self.send_error(503, "no survey has ended yet")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests come every few seconds; only what surveys say is logged."""


class Surveys:
    """Takes surveys until it is stopped."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        while not self.stopping.is_set():
            code = self._take()
            if code not in SEEN and not self.stopping.is_set():
                sys.stderr.write(f"survey_metrics: the survey ended with {code}: {COUNTS} is not of now\n")
            self.stopping.wait(EVERY_S if code in SEEN else min(EVERY_S, AGAIN_S))

    def _take(self) -> int:
        with self._lock:
            if self.stopping.is_set():
                return 0
            self._running = subprocess.Popen(["lethe", "survey", "--textfile", str(COUNTS)], stdout=subprocess.DEVNULL)
        return self._running.wait()

    def stop(self) -> None:
        """End the survey that is being taken, and take no other."""
        self.stopping.set()
        with self._lock:
            if self._running is not None:
                self._running.terminate()


def end(*_: object) -> NoReturn:
    """Leave the serving. A handler takes no lock: the thread that it interrupts may hold it."""
    sys.exit(0)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    surveys = Surveys()
    taking = threading.Thread(target=surveys.run)
    try:
        # As process 1 of a container it would not hear a signal that it does not handle.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        with http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler) as server:
            sys.stderr.write(f"survey_metrics: listening on port {server.server_address[1]}\n")
            taking.start()
            server.serve_forever()
    finally:
        surveys.stop()
        if taking.ident is not None:
            taking.join()


if __name__ == "__main__":
    main()
