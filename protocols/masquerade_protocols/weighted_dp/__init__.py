"""WD-DP of Kang, Liu and Wang: every party descends under noise, and the results are averaged by size."""
