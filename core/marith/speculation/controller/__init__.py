"""How many tokens to draft next, from the cost of passes and the acceptance of drafts?"""
