//! Mocks for every role of a run. A mock takes the real actor's messages (or, behind inference and retriever, the
//! real trait), so nothing else can tell. It says of itself that it is a mock, and runs over it say so too.

pub mod mocks;
