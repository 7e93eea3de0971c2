"""What tools share: the frame and the charts of pages, weights with names, and the calibration of probabilities."""
