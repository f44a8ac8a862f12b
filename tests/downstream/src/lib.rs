//! A crate of somebody who builds on legwork. What it shows is in its tests: they know nothing of this house but what
//! the library `legwork` gives them.
