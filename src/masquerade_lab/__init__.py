"""The laboratory: what is done with protocols and takes part in no run.

``reproduce`` makes the papers' figures again. ``audit`` attacks thousands of runs. ``originals`` reads the files of the
data sets that the papers use. ``commands`` has ``masquerade reproduce`` and ``masquerade audit``.

This is the top floor. It may import every other package, and none of them imports it: a party, Charlie and ``predict``
load nothing of it. The command line finds ``commands`` by its name, when somebody asks for a command of it.
"""
