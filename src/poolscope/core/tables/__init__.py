"""Tables on disk that may be larger than memory: read in batches, written in parts."""

from poolscope.core.tables.columns import Batch
from poolscope.core.tables.delivery import Destination, delivered, destination_of, local_copy
from poolscope.core.tables.locations import Data, label_of, local_paths
from poolscope.core.tables.reading import RowRange, Source, open_file, open_table, read_table, scan_written
from poolscope.core.tables.sources import SourceOptions, opened
from poolscope.core.tables.writing import Parts, check_output, check_outputs, writing

__all__ = [
    "Batch",
    "Data",
    "Destination",
    "Parts",
    "RowRange",
    "Source",
    "SourceOptions",
    "check_output",
    "check_outputs",
    "delivered",
    "destination_of",
    "label_of",
    "local_copy",
    "local_paths",
    "open_file",
    "open_table",
    "opened",
    "read_table",
    "scan_written",
    "writing",
]
