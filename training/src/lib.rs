//! Trajectories.
