"""Properties that name policies of Kafka's: Java classes, which Lethe cannot run. One that is configured was meant to
refuse things, so no process that clients can reach starts without it unless `lethe.policy.java.ignore` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lethe.adapters.properties import Property, PropertyKind, Values

ALTER_POLICY: Final = {"alter.config.policy.class.name": "ACLs for AlterConfigs"}
"""The policy on changes of configurations, and what to use in its place."""
_IGNORED: Final = "lethe.policy.java.ignore"


def java_policies(policies: Mapping[str, str]) -> Iterator[Property]:
    """Return the properties that name these policies, and the one that ignores them. `policies` has what to use in
    place of each."""
    for name, instead in policies.items():
        yield Property(
            name,
            PropertyKind.TEXT,
            None,
            "The brokers' policy, a Java class, which Lethe cannot run: with `listeners` it does not start unless "
            f"`{_IGNORED}` is true. In its place: {instead}.",
        )
    named = " and ".join(f"`{name}`" for name in policies)
    yield Property(
        _IGNORED,
        PropertyKind.BOOLEAN,
        "false",
        f"Whether to start without the {'policy' if len(policies) == 1 else 'policies'} that {named} "
        f"{'names' if len(policies) == 1 else 'name'}.",
    )


def check_java_policies(values: Values, policies: Mapping[str, str]) -> None:
    """Note each of these policies as a problem, or as a warning if it is to be ignored. `listeners`: clients come."""
    is_ignored = values.boolean(_IGNORED)
    for name, instead in policies.items() if values.text("listeners") else ():
        if not values.text(name):
            continue
        if is_ignored:
            ignored = f"{name} is ignored, as {_IGNORED} says: Lethe does not run it"
            values.warnings.append(f"{values.origin(name)}: {ignored}")
        else:
            remedy = f"use {instead}, remove the line, or set {_IGNORED}=true to start without the policy"
            values.wrong(name, "names a Java class, which Lethe cannot run", remedy)
