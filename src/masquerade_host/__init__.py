"""The carrier of a role: driver, transport, sessions, journal, ledger, policy, key files, and the files a run leaves.

A *role* is one participant's part of a protocol. This package runs roles between processes and knows no protocol. Its
journal lets a process that died go on where it was.
"""
