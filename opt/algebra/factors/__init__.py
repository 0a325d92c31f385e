"""Products of many factors: what each is known to be, what two cost, and their cheapest order."""
