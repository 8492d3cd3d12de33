"""What a device sends over time: fresh or memoized responses, in one round or two, up to a cap."""
