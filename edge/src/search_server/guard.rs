//! Who may ask: with a token, whoever has it; without one, programs of this machine, which rules out a web page that
//! had a foreign name resolve to it. `/health` is open.

use super::config::Token;
use super::routes::{State, refusal};
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, HOST, HeaderMap};
use actix_web::middleware::Next;
use actix_web::{Error, web};
use std::net::IpAddr;

/// Lets a request through or answers it.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let refused = match request.app_data::<web::Data<State>>() {
        _ if request.path() == "/health" => None,
        Some(state) => why_not(&state.config.token, request.headers()),
        None => None,
    };
    match refused {
        None => Ok(next.call(request).await?.map_into_left_body()),
        Some((status, detail)) => Ok(request.into_response(refusal(status, detail)).map_into_right_body()),
    }
}

fn why_not(token: &Option<Token>, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    match token {
        Some(token) => {
            let sent = headers.get(AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
            let is_right = sent
                .split_at_checked(7)
                .is_some_and(|(scheme, sent)| scheme.eq_ignore_ascii_case(b"bearer ") && token.is(sent));
            (!is_right).then_some((
                StatusCode::UNAUTHORIZED,
                "a bearer token is needed: send `Authorization: Bearer …` with the server's token",
            ))
        }
        None => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            (!is_this_machine(host)).then_some((StatusCode::FORBIDDEN, "without a token only 127.0.0.1, [::1] and localhost are answered: use one of these names, or set a token"))
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, _)) => name,
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost:8000", true),
            ("127.0.0.1:8000", true),
            ("[::1]:8000", true),
            ("127.0.0.1.example.org", false),
            ("evil.example:8000", false),
            ("[2001:db8::1]:80", false),
            ("", false),
        ] {
            assert_eq!(is_this_machine(host), expected, "{host}");
        }
    }
}
