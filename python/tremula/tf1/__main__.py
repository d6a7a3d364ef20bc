"""`python -m tremula.tf1`."""

import sys

from tremula.old_programs import runner

runner.main("tremula.tf1", sys.argv[1:])
