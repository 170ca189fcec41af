"""Warnings, in the values of a configuration, about files with secrets that every user of the machine may read or
write (`adapters.security.exposure`)."""

from __future__ import annotations

from pathlib import Path

from lethe.adapters.properties import PropertyKind, Values
from lethe.adapters.security.exposure import exposure


def warn_of_exposure(values: Values, name: str, origin: str, path: Path) -> None:
    """Add a warning, once, if the file that the property names is exposed."""
    found = exposure(path)
    warning = f"{origin}: {name}={path}: {found}"
    if found is not None and warning not in values.warnings:
        values.warnings.append(warning)


def warn_of_exposed_properties(values: Values, path: Path | None) -> None:
    """Add a warning if the properties file is exposed and has a secret itself, also one of a listener."""
    if path is None or (found := exposure(path)) is None:
        return
    secrets = [prop.name for prop in values.schema.values() if prop.kind is PropertyKind.SECRET]
    for name, setting in values.settings.items():
        secret = next((each for each in secrets if name.endswith(each)), None)
        if secret is not None and setting.value.strip() and setting.origin.startswith(f"{path}:"):
            values.warnings.append(f"{setting.origin}: {secret} is a secret, and its file {path}: {found}")
            return
