"""Parts that tools share: frame and charts of pages, weights with names, and the calibration of probabilities."""
