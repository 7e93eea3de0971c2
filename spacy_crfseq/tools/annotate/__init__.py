"""A page to annotate texts, which learns from each of them: `annotate`."""
