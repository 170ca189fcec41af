"""Whether a broker gives a client the same verdicts if its requests are forwarded from another host.

A broker sees the address of the forwarder. Over PLAINTEXT both are User:ANONYMOUS, so only ACLs
with a host make a difference:

    ACL                                       the forwarder at 10.0.0.9 asks for a client at 10.0.0.5
    Allow User:ANONYMOUS Read from *          same verdict
    Allow User:ANONYMOUS Read from 10.0.0.9   the client would get what it may not have
    Deny User:* All from 10.0.0.5             the same
"""

from __future__ import annotations

from lethe.protocol.security.acls import WILDCARD
from lethe.protocol.security.authorizer import Acls
from lethe.protocol.security.principals import ANONYMOUS, EVERYONE


def hosts_matter(acls: Acls) -> bool:
    """Return whether some ACL about User:ANONYMOUS, or everyone, has a host. Looks at all of them."""
    return any(
        entry.host != WILDCARD and entry.principal in (ANONYMOUS, EVERYONE)
        for _, entries in acls.patterns()
        for entry in entries
    )
