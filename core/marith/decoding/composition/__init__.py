"""Which distribution does a formula define, given the log-probabilities of its terms?"""
