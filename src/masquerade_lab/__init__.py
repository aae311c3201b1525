"""The laboratory: what is done with protocols and takes part in no run.

``reproduce`` makes the papers' figures again. ``audit`` attacks thousands of runs. ``baselines`` compute in one place
what protocols are compared with. ``originals`` reads the files of the data sets that the papers use. ``commands`` has
``masquerade reproduce`` and ``masquerade audit``.

This is the top floor. It may import every other package, and none of them imports it: a party, Charlie and ``predict``
load nothing of it. Two find a part of it by its name, when somebody asks for it: the command line finds ``commands``,
and the registry of protocols finds ``baselines``, for ``simulate`` and the estimators.
"""
