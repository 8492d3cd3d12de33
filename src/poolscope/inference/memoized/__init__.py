"""The attack on devices that keep their answers."""
