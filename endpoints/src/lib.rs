//! Model endpoints over HTTP.
