"""The numbers of a replay: metrics, windows, slices, how sure they are, and which contender is better."""
