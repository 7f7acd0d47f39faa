"""What is known of each token of a text, as plain data?"""
