//! Which host and port a base URL names. Whatever else a URL may hold, a password above all, is left behind here.

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the scheme is `https`.
    pub(crate) is_encrypted: bool,
}

impl HostPort {
    /// Reads a base URL.
    ///
    /// # Errors
    /// A text for the user that quotes nothing but the scheme or the port.
    pub(crate) fn of(url: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("expected a URL such as http://127.0.0.1:8000/v1, got one without ://".to_owned());
        };
        let is_encrypted = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("expected a URL that begins with http:// or https://, got another scheme".to_owned()),
        };
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let after_user = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = host_and_port(after_user)?;
        // A password that holds a slash would end up as the host: what is no name is not shown either.
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err("expected a host name or an address in the URL, got something else".to_owned());
        }
        let port = match port {
            None => {
                if is_encrypted {
                    443
                } else {
                    80
                }
            }
            Some(port) => port.parse().map_err(|_| "expected a port of 1 to 65535 in the URL, got something else")?,
        };
        Ok(Self { host: host.to_owned(), port, is_encrypted })
    }

    /// Whether it is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn host_and_port(text: &str) -> Result<(&str, Option<&str>), String> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("expected ] behind the address in the URL, got none")?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    Ok((host, rest.strip_prefix(':').filter(|port| !port.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(url: &str) -> String {
        HostPort::of(url).map_or_else(|error| error, |address| address.to_string())
    }

    #[test]
    fn host_and_port_come_out_with_the_schemes_default() {
        assert_eq!(read("http://127.0.0.1:8000/v1"), "127.0.0.1:8000");
        assert_eq!(read("https://api.example.com/v1"), "api.example.com:443");
        assert_eq!(read("HTTP://host"), "host:80");
        assert_eq!(read("http://[::1]:9/x"), "[::1]:9");
        assert_eq!(read("https://[::1]"), "[::1]:443");
        assert!(HostPort::of("http://[::1]:9").unwrap().is_loopback());
        assert!(HostPort::of("https://localhost").unwrap().is_loopback());
        assert!(!HostPort::of("https://example.com").unwrap().is_loopback());
    }

    #[test]
    fn a_password_or_a_parameter_never_shows() {
        assert_eq!(read("https://bob:hunter22@host:1/v1?key=abc"), "host:1");
        assert_eq!(read("https://bob:p@ss@host/v1"), "host:443");
        for url in ["hunter22", "ftp://hunter22@h", "http://hunter22 x@", "http://:hunter22", "http://a:hunter22"] {
            assert!(!read(url).contains("hunter22"), "{}", read(url));
        }
    }

    #[test]
    fn what_is_no_url_is_told_with_what_was_expected() {
        for url in ["", "host:1", "http://", "http://:80", "http://[::1", "http://h:99999", "http://h:x", "ws://h"] {
            assert!(read(url).starts_with("expected "), "{url}: {}", read(url));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(url in any::<String>(), host in "[a-z]{1,9}(\\.[a-z]{1,9}){0,3}", port in 1u16..) {
            let _read_or_refused = HostPort::of(&url);
            let read = HostPort::of(&format!("https://{host}:{port}/{url}")).unwrap();
            prop_assert_eq!((read.host, read.port), (host, port));
        }
    }
}
