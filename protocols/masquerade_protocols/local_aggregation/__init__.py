"""Local aggregation of Pathak, Rane and Raj (2010): the average of all classifiers, with the smallest party's noise."""
