"""Base images where no registry can be pulled from: Debian's own packages in their place.

Python's image is stood in for by a minimal Debian with Debian's Python, which has this machine's certificates, for what
is installed into it during a build comes through the machine's network; Prometheus' image by that with Debian's package
`prometheus`. For Grafana there is no stand-in: it is left out.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.compose import places
from tests.compose.progress import Failed, NoEngine, say

RELEASE: Final = "bookworm"
PYTHON: Final = "lethe-stand-in/python:3.11"
PROMETHEUS: Final = "lethe-stand-in/prometheus:2.42"
PACKAGES: Final = "ca-certificates,python3,python3-venv"
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
OWN_CERTIFICATES: Final = Path("/usr/local/share/ca-certificates")
_PROMETHEUS: Final = f"""\
FROM {PYTHON}
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends prometheus \\
    && rm -rf /var/lib/apt/lists/* \\
    && install --directory --owner=nobody --group=nogroup /prometheus
USER nobody
ENTRYPOINT ["/usr/bin/prometheus"]
"""


def can_pull(environment: Mapping[str, str], image: str) -> bool:
    """The image is there, or its registry hands it out."""
    for command in (["docker", "image", "inspect", image], ["docker", "pull", "--quiet", image]):
        if subprocess.run(command, env=dict(environment), capture_output=True, check=False).returncode == 0:
            return True
    return False


def make(environment: Mapping[str, str], work_dir: Path) -> dict[str, str]:
    """Makes those that are not there yet; the variables with which docker-compose.yml takes them. Raises NoEngine where
    the machine cannot make them, Failed where it fails to."""
    if not _exists(environment, PYTHON):
        if shutil.which("debootstrap") is None:
            raise NoEngine("no image can be pulled, and stand-ins need debootstrap: apt-get install debootstrap")
        _make_python(environment, work_dir / "rootfs")
        say(f"{PYTHON} stands in for Python's image")
    if not _exists(environment, PROMETHEUS):
        _run(["docker", "build", "--tag", PROMETHEUS, "-"], environment, _PROMETHEUS.encode())
        say(f"{PROMETHEUS} stands in for Prometheus' image")
    return {"PYTHON_IMAGE": PYTHON, "PROMETHEUS_IMAGE": PROMETHEUS}


def _make_python(environment: Mapping[str, str], root: Path) -> None:
    try:
        _run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, str(root)], environment)
        for certificate in OWN_CERTIFICATES.glob("*.crt"):
            shutil.copy(certificate, root / OWN_CERTIFICATES.relative_to("/"))
        _run(["chroot", str(root), "update-ca-certificates"], environment)
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        # It leaves /proc mounted.
        if left := places.unmount_below(root):
            raise Failed(f"{PYTHON} cannot be made: still mounted are {', '.join(left)}")
        for cache in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(root / cache)
            (root / cache / "partial").mkdir(parents=True)
        _import(environment, root)
    finally:
        places.remove(root)


def _import(environment: Mapping[str, str], root: Path) -> None:
    settings = [f"ENV {name}={CERTIFICATES}" for name in ("PIP_CERT", "SSL_CERT_FILE")]
    changes = [word for setting in settings for word in ("--change", setting)]
    tar = subprocess.Popen(
        ["tar", "--create", "--one-file-system", "--directory", str(root), "."], stdout=subprocess.PIPE
    )
    try:
        imported = subprocess.run(
            ["docker", "import", *changes, "-", PYTHON],
            env=dict(environment),
            stdin=tar.stdout,
            capture_output=True,
            text=True,
            check=False,
        )
        if tar.wait() or imported.returncode:
            raise Failed(f"{PYTHON} cannot be imported: {imported.stderr.strip()}")
    finally:
        tar.kill()
        tar.wait()


def _exists(environment: Mapping[str, str], image: str) -> bool:
    command = ["docker", "image", "inspect", image]
    return subprocess.run(command, env=dict(environment), capture_output=True, check=False).returncode == 0


def _run(command: list[str], environment: Mapping[str, str], given: bytes = b"") -> None:
    ran = subprocess.run(command, env=dict(environment), input=given, capture_output=True, check=False)
    if ran.returncode:
        said = (ran.stdout + ran.stderr).decode(errors="replace").splitlines()[-15:]
        raise Failed(f"{' '.join(command)} ended with {ran.returncode}:\n" + "\n".join(said))
