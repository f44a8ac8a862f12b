//! Serves the mock model of the tests, for the clients of `edge/clients`: `cargo run -p legwork-edge --example
//! mock_model_server -- 127.0.0.1:8001 [split] [token]`. It prints where it listens, and ends with Ctrl-C.

#![allow(clippy::print_stdout)]

#[path = "../tests/model_server/mock.rs"]
mod mock;

use legwork_edge::model_server::{ModelServerConfig, Reasoning, Token, bind};
use std::error::Error;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = ModelServerConfig::default();
    for (place, argument) in std::env::args().skip(1).enumerate() {
        match (place, argument.as_str()) {
            (0, listen) => config.listen = listen.parse()?,
            (_, "split") => config.reasoning = Reasoning::Split,
            (_, token) => config.token = Some(Token::new(token)),
        }
    }
    let server = bind(&config, vec![Arc::new(mock::Mock::default())])?;
    println!("listening on http://{}", server.address());
    let handle = server.handle();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        handle.stop(true).await;
    });
    Ok(server.run().await?)
}
