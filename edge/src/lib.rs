//! The HTTP edge: what others may ask of legwork over HTTP, on actix-web. It carries requests in and answers out.
//!
//! It refuses to know how anything is found or computed: a library or an actor does that behind a trait.

mod caller;
pub mod model_server;
pub mod search_server;
