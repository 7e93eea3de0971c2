"""Losses: functions of scores, one a file.  See `types.Loss` for the contract."""
