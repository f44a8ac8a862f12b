//! The model server's guard before its routes: who may not ask is told why, and every answer is counted by its route and
//! status. `/health` is open.

use super::refused::Refused;
use super::routes::State;
use crate::caller::why_not;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{Error, web};

/// Under which all routes that there are not are counted.
const OTHER: &str = "other";

/// Lets a request through or answers it.
pub(super) async fn guard(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let Some(state) = request.app_data::<web::Data<State>>().cloned() else {
        return Ok(next.call(request).await?.map_into_left_body());
    };
    let is_open = request.path() == "/health";
    let refused = if is_open { None } else { why_not(&state.config.token, request.headers()) };
    let answer = match refused {
        None => next.call(request).await?.map_into_left_body(),
        Some((status, detail)) => request.into_response(Refused::http(status, detail).response()).map_into_right_body(),
    };
    let route = answer.request().match_pattern().unwrap_or_else(|| OTHER.to_owned());
    let status = answer.status().as_u16();
    tracing::debug!(route, status, "a request is answered, or its answer begins");
    state.meter.answered(&route, status);
    Ok(answer)
}
