"""`make compose-test`: docker-compose.yml as it stands, with real containers, from `up` to `down --volumes`.

Where no Docker engine can be reached one is started, as root, in a directory of its own and with its own socket; what
cannot be pulled is stood in for. Nothing that was started here is left behind, however the run ends.
"""
