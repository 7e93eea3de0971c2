"""Potentials: whatever turns an encoded text into scores, and takes gradients of scores back to its parameters."""
