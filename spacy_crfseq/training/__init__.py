"""Training: the objective that ties model, data, loss and penalty together, and the loop that lowers it."""
