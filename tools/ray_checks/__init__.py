"""Test replicas of `marith serve` on a cluster of Ray on this machine (`make ray`)."""
