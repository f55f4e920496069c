"""`ortwin conform`: a generator of cases, arms that run them, a verifier of what they made of them.

The three know a case (case.py) and an outcome (outcome.py), and nothing of one another; command.py puts them together.
"""
