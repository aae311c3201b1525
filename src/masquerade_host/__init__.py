"""What carries a role: the driver, the transport, the sessions, the key files, and the files a run leaves.

A *role* is one participant's part of a protocol. This package runs roles between processes and knows no protocol. It
keeps no journal: a process that dies cannot go on where it was, and its run has to be started again.
"""
