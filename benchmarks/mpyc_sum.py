"""MPyC's secure sum of the same vectors: ``python -m benchmarks.mpyc_sum ROUNDS LENGTH -M5``.

MPyC is the usual alternative: K parties hold Shamir shares of fixed-point numbers, and trust that fewer than half of
them collude. Each party inputs its vector, all shares are added, and everybody gets the sum.
"""

import json
import sys
import time

from mpyc.runtime import mpc

WIDTH, FRACTION = 32, 15  # bits of a number; psgd's slots have 31 and 15


async def _rounds(count: int, length: int) -> list[float]:
    number = mpc.SecFxp(WIDTH, FRACTION)
    own = [number(0.5 + mpc.pid)] * length
    taken = []
    await mpc.start()
    for _ in range(count):
        start = time.perf_counter()
        first, *others = mpc.input(own)
        for vector in others:
            first = mpc.vector_add(first, vector)
        total = await mpc.output(first)
        taken.append(time.perf_counter() - start)
        assert [float(v) for v in total] == [sum(0.5 + i for i in range(len(mpc.parties)))] * length
    await mpc.shutdown()
    return taken


if __name__ == "__main__":
    seconds = mpc.run(_rounds(int(sys.argv[1]), int(sys.argv[2])))
    if mpc.pid == 0:
        print(json.dumps(seconds))
