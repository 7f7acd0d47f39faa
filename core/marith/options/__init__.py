"""What does an application say of a model? Plain data, without torch until it is used."""
