"""summary, this program's own: private statistics of the columns, by one secure sum of noisy histograms."""
