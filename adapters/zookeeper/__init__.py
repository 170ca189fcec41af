"""ZooKeeper behind one strict adapter: one object is one session, and nothing crosses sessions.

Outside of this package only three modules are of interest: `interface` (what a session promises, which the tests' fake
promises too), `config` (connect string, credentials, limits) and `session` (`open_session`). The others are the ways
and means: `wire` packs and unpacks requests, `connection` is one TCP connection, `watches` knows which are armed.
"""
