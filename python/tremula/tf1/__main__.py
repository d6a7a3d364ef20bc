"""`python -m tremula.tf1`."""

import sys

from tremula.tf1 import runner

runner.main(sys.argv[1:])
