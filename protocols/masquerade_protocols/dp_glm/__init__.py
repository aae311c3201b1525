"""dp-glm, this program's own: regression coefficients with honest intervals, from six noisy sums."""
