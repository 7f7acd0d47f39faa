"""What does a formula come to, for each token?"""
