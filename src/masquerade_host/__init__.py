"""What carries a role: the driver, the transport, the sessions, the journal, the ledger, keys, and the files a run leaves.

A *role* is one participant's part of a protocol. This package runs roles between processes and knows no protocol. Its
journal lets a process that died go on where it was.
"""
