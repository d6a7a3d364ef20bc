"""Old programs on today's packages: what `python -m tremula.tf1` and `python -m tremula.tf2` share.

Nothing else imports this package: Tremula itself changes neither NumPy nor Python.
"""
