"""How does a notebook show what comes back?"""
