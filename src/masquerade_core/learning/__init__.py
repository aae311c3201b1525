"""Learning: losses, regularised empirical risk minimisation, sums of gradients, and classifiers of any kind."""
