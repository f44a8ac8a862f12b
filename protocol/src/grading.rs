//! (grading: being written)
