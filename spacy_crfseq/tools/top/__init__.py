"""The largest weights of a model: `top`."""
