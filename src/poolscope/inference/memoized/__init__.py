"""The attack on devices that memoize responses."""
