"""Decoders: from scores to one label per token, one per file.  See `types.Decoder` for the contract."""
