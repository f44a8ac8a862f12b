//! Looking: the only part of the doctor that touches the machine. It writes one empty file and takes it away again,
//! opens connections and closes them, and reads the rest.

mod machine;
mod places;

use super::address::HostPort;
use super::inputs::{DoctorInputs, EndpointInput};
use super::seen::{Endpoint, Seen, Terminal};
use crate::terminal::WatchMode;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// A connection that takes longer, names included, is told as none.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Variables that send HTTP through a proxy, as the endpoints' client reads them.
const PROXY_VARIABLES: [&str; 6] = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Looks at everything.
pub(crate) async fn look(inputs: &DoctorInputs, mode: WatchMode) -> Seen {
    let asked = inputs.clone();
    // Files may be large and disks slow: not on the runtime's own threads.
    let files = tokio::task::spawn_blocking(move || places::look(&asked));
    let endpoints = look_at_endpoints(&inputs.endpoints).await;
    let files = match files.await {
        Ok(files) => files,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    Seen {
        processor: machine::processor(),
        memory: machine::memory(),
        open_files_max: machine::open_files_max(),
        gpu: machine::gpu(),
        runs: files.runs,
        endpoints,
        proxy_variable: PROXY_VARIABLES.into_iter().find(|name| is_set(name)),
        tokenizers: files.tokenizers,
        models: files.models,
        index: files.index,
        corpus: files.corpus,
        terminal: terminal(mode),
    }
}

/// All at once, so that many dead servers take a second together.
async fn look_at_endpoints(inputs: &[EndpointInput]) -> Vec<Endpoint> {
    let mut looks = JoinSet::new();
    for (index, input) in inputs.iter().cloned().enumerate() {
        looks.spawn(async move { (index, look_at_endpoint(&input).await) });
    }
    let mut seen = looks.join_all().await;
    seen.sort_by_key(|(index, _)| *index);
    seen.into_iter().map(|(_, endpoint)| endpoint).collect()
}

async fn look_at_endpoint(input: &EndpointInput) -> Endpoint {
    let key = places::key(input.key.as_ref());
    match HostPort::of(&input.url) {
        Ok(address) => Endpoint {
            is_encrypted: address.is_encrypted,
            is_loopback: address.is_loopback(),
            connected: connect(&address).await,
            address: Ok(address.to_string()),
            key,
        },
        Err(error) => Endpoint {
            address: Err(error),
            is_encrypted: false,
            is_loopback: false,
            connected: Err("no address to connect to".to_owned()),
            key,
        },
    }
}

async fn connect(address: &HostPort) -> Result<u64, String> {
    let began = Instant::now();
    match timeout(CONNECT_MAX, TcpStream::connect((address.host.as_str(), address.port))).await {
        Ok(Ok(_connection)) => Ok(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_elapsed) => Err(format!("no connection within {} ms", CONNECT_MAX.as_millis())),
    }
}

fn terminal(mode: WatchMode) -> Terminal {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    Terminal {
        mode,
        term: std::env::var("TERM").ok(),
        size: ratatui::crossterm::terminal::size().ok(),
        has_utf8: locale.contains("utf-8") || locale.contains("utf8"),
    }
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::inputs::KeySource;
    use crate::doctor::seen::Key;

    fn endpoint(url: String) -> EndpointInput {
        EndpointInput { name: "models.worker".to_owned(), url, key: None }
    }

    #[tokio::test]
    async fn a_listening_port_is_reached_and_a_closed_one_is_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap().port();
        let closed = {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let urls = [
            format!("http://127.0.0.1:{closed}/v1"),
            format!("http://u:secret@127.0.0.1:{open}/v1"),
            "nothing".to_owned(),
        ];
        let seen = look_at_endpoints(&urls.map(endpoint)).await;
        assert!(seen[0].connected.is_err());
        assert!(seen[1].connected.is_ok() && seen[1].is_loopback);
        assert_eq!(seen[1].address, Ok(format!("127.0.0.1:{open}")));
        assert!(seen[2].address.is_err());
        assert!(!format!("{seen:?}").contains("secret"));
    }

    #[tokio::test]
    async fn looking_at_nothing_in_particular_sees_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = DoctorInputs { runs_folder: folder.path().join("not/yet"), ..DoctorInputs::default() };
        let seen = look(&inputs, WatchMode::Plain).await;
        assert!(seen.processor.cores >= 1);
        assert_eq!(seen.runs.nearest, folder.path());
        assert!(!seen.runs.exists && seen.runs.refused.is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
        assert_eq!(
            places::key(Some(&KeySource::Env("LEGWORK_NO_SUCH_VARIABLE".to_owned()))),
            Key::Missing("the variable is not set".to_owned())
        );
    }
}
