"""The cost of a run, beside the cost of the same run with plain phe: ``make bench``.

All of it runs with one thread of BLAS, numpy's library for products of matrices. Others spin on for a while after the
library is loaded and after each product, and their time would count as that of the role that is measured.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is loaded; the processes that a benchmark starts inherit it
