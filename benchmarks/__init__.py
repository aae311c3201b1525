"""The cost of a run, beside the cost of the same run with plain phe: ``make bench``."""
