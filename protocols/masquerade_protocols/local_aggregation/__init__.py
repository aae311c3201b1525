"""Local aggregation of Pathak, Rane and Raj (2010): an average of classifiers, and the smallest party's noise."""
