"""What is a formula made of, and how is it written?"""
