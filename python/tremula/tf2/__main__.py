"""`python -m tremula.tf2`."""

import sys

from tremula.old_programs import runner

runner.main("tremula.tf2", sys.argv[1:])
