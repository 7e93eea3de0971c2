"""The dual perceptron of Altun, Johnson & Hofmann (2003): an optimizer and a potential."""
