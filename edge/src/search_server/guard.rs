//! The search server's guard before its routes: who may not ask is told why. `/health` is open.

use super::routes::{State, refusal};
use crate::caller::why_not;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, web};

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
