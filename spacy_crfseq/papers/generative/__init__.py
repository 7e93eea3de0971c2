"""Hidden Markov models and naive Bayes: optimizers that count."""
