"""Delay statistics of the flights that left New York City in 2013, as a stream.

`spout` replays the flights at a chosen rate, `bolts` parse, filter and enrich them, `delay_windows` hold the statistics
that `delay_bolts` emit, `alerts` and `sink` end the stream. `records` and `reference` say what a flight and the tables
it is joined with are, `archive` where the data is. `offsets`, `progress`, `progress_store` and `committer` make the
spout's progress survive its worker. `settings` is the list of the topology's own configuration keys.
"""
