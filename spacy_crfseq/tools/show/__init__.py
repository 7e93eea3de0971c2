"""The predictions of a component, each shaded by its probability: `show`."""
