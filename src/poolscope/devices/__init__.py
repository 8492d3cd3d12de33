"""Say what a device sends over time: fresh or memoized responses, in one round or two, up to a cap."""

# with the package, so that `device_of` knows the devices of every mechanism, whichever module asks first
from poolscope.devices import memoized as memoized
