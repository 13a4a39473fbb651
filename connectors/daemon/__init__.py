"""The daemon: learns every event of a source once, whatever crashes."""
