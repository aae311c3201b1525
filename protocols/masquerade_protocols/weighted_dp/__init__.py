"""WD-DP of Kang, Liu and Wang: noisy local descents, averaged by size."""
