"""A cluster of Ray on this machine: replicas of `marith serve`, and evaluations (`make ray`)."""
