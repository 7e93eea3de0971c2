"""Decoders: from scores to one label a token, one a file.  See `types.Decoder` for the contract."""
