//! A library that is somebody's search server over HTTP. It refuses to know the wire: the client does.

use super::Library;
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::search::SearchClient;
use legwork_protocol::failure::Failure;
use legwork_protocol::retrieval::{Page, PageRef, SearchAnswer};

/// A library behind a search server.
pub struct ServerLibrary {
    client: SearchClient,
    name: String,
}

impl ServerLibrary {
    /// A library that asks by this client.
    pub fn new(client: SearchClient) -> Self {
        let name = format!("search server at {}", client.url());
        Self { client, name }
    }

    /// Asks whether the server is up, so that a run can refuse to begin without it.
    ///
    /// # Errors
    /// The failure as the client names it.
    pub async fn health(&self) -> Result<(), Failure> {
        self.client.health().await
    }
}

impl Library for ServerLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn search(&self, query: String, k: u32) -> BoxFuture<'_, Result<SearchAnswer, Failure>> {
        async move { self.client.search(&query, k).await }.boxed()
    }

    fn open(&self, page: PageRef) -> BoxFuture<'_, Result<Option<Page>, Failure>> {
        async move { self.client.open(&page).await }.boxed()
    }
}
