"""Events to rows: names, labels and targets, and the scales that follow them."""
