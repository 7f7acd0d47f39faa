"""What may an answer be, and how is it read back?"""
