//! Tables, statistics and plots over finished episodes.
