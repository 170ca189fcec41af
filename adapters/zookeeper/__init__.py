"""ZooKeeper adapter: one object is one session, and nothing crosses sessions.

Other packages use three modules: `interface` (the contract of a session, which the tests' fake implements too),
`config` (connect string, credentials, limits) and `session` (`open_session`). Internal modules: `wire` packs and parses
requests, `connection` is one TCP connection, `watches` registers the armed watches.
"""
