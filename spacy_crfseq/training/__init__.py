"""Training: the objective of potential, data, losses and penalty, and the loops that lower it."""
