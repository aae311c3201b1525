"""What a run costs, against the same run with phe as it comes: ``make bench``."""
