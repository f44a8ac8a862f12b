//! One call from start to end: the line at the door, the tries, the time limits, and the reading of an
//! answer whether it comes whole or as events. What to do after a fault is decided in `retry`.
//!
//! It refuses to know wire formats: a `Reader` reads them.

use crate::admission::Admission;
use crate::config::{Checked, EndpointConfig};
use crate::error::EndpointError;
use crate::fault::Fault;
use crate::http::{Answer, Ask, Http, Scheme, Stopped};
use crate::rate::RateLimiter;
use crate::retry::{Decision, RetryPolicy, decide};
use crate::shared::{Counters, Shared, count};
use crate::stream::{Stream, Told, read_whole};
use legwork_protocol::failure::{Failure, FailureKind};
use std::sync::Arc;
use tokio::time::{Duration, Instant};

/// How long an answer that has given its finish reason is waited on for its usage and its end.
pub(crate) const AFTER_FINISH_MS: u64 = 5_000;
/// How long the end of a stream that said it was done is waited on, so that its connection can be used
/// again; a server that does not end it loses the connection.
pub(crate) const DRAIN_MS: u64 = 50;

/// Reads one answer.
pub(crate) trait Reader: Send {
    /// What the answer says.
    type Out: Send;
    /// Takes the data of one event.
    fn event(&mut self, data: &str) -> Result<(), Fault>;
    /// Whether what came so far is a whole answer, so that an end here is no loss.
    fn complete(&self) -> bool;
    /// The answer, after the events.
    fn finish(self) -> Result<Self::Out, Fault>;
    /// The answer from a whole body.
    fn whole(self, body: &[u8]) -> Result<Self::Out, Fault>;
    /// The server holds nothing of this try.
    fn refused(self)
    where
        Self: Sized,
    {
    }
    /// Tokens that the server counted, to correct the estimate; none where it did not.
    fn tokens(out: &Self::Out) -> Option<u64>;
}

/// An answer and how long it took.
pub(crate) struct Served<T> {
    pub(crate) out: T,
    pub(crate) queued_ms: u64,
    pub(crate) served_ms: u64,
    pub(crate) attempts: u32,
}

/// Makes calls to one endpoint.
pub(crate) struct Caller {
    name: String,
    pub(crate) http: Http,
    door: Arc<Admission>,
    requests: Option<RateLimiter>,
    tokens: Option<RateLimiter>,
    policy: RetryPolicy,
    timeout: Duration,
    shared: Shared,
    pub(crate) counters: Arc<Counters>,
}

impl Caller {
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        checked: &Checked,
        scheme: Scheme,
        shared: &Shared,
    ) -> Result<Self, EndpointError> {
        Ok(Self {
            name: name.to_owned(),
            http: Http::new(name, config, checked, scheme)?,
            door: Admission::new(config.concurrency, config.adaptive),
            requests: config.requests_per_minute.map(RateLimiter::new),
            tokens: config.tokens_per_minute.map(RateLimiter::new),
            policy: config.retries.clone(),
            timeout: Duration::from_millis(config.timeout_ms),
            shared: shared.clone(),
            counters: Arc::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls. Each try sends what `prepare` gives and reads the answer with the reader beside it.
    /// `timeout_ms` bounds the time being served, all tries and backoffs included and the line at
    /// the door excluded; `tokens` is the estimate for the rate. A permit is held from the first try to
    /// the end, backoffs included, so that a server in trouble is not met by the next in line.
    pub(crate) async fn call<R: Reader>(
        &self,
        timeout_ms: u64,
        tokens: u64,
        prepare: impl Fn() -> (Ask, R),
    ) -> Result<Served<R::Out>, Failure> {
        let came = Instant::now();
        let _permit = self.door.enter().await;
        if let Some(rate) = &self.tokens {
            rate.acquire(tokens).await;
        }
        let mut queued = came.elapsed();
        let mut served = Duration::ZERO;
        let most = Duration::from_millis(timeout_ms);
        let mut attempt = 0;
        loop {
            attempt += 1;
            queued += self.wait_for_a_request().await;
            let start = Instant::now();
            let result = self.limited_try(prepare(), most.saturating_sub(served), attempt).await;
            served += start.elapsed();
            let stopped = match result {
                Ok(out) => {
                    self.settle(tokens, R::tokens(&out));
                    self.door.succeeded();
                    count(&self.counters.answered);
                    let (queued_ms, served_ms) = (millis(queued), millis(served));
                    return Ok(Served { out, queued_ms, served_ms, attempts: attempt });
                }
                Err(stopped) => stopped,
            };
            if stopped.fault.overload {
                self.door.overloaded();
            }
            let left = most.saturating_sub(served);
            let wait = self.after(attempt, &stopped, left).inspect_err(|failure| self.tell(failure))?;
            tracing::debug!(endpoint = self.name, attempt, wait_ms = millis(wait), "{}", stopped.fault.detail);
            tokio::time::sleep(wait).await;
            served += wait;
        }
    }

    async fn wait_for_a_request(&self) -> Duration {
        let Some(rate) = &self.requests else { return Duration::ZERO };
        let came = Instant::now();
        rate.acquire(1).await;
        came.elapsed()
    }

    fn settle(&self, estimate: u64, actual: Option<u64>) {
        if let (Some(rate), Some(actual)) = (&self.tokens, actual) {
            rate.settle(estimate, actual);
        }
    }

    /// How long to wait before the next try, or the failure that ends the call.
    fn after(&self, attempt: u32, stopped: &Stopped, left: Duration) -> Result<Duration, Failure> {
        let fault = &stopped.fault;
        let now = stopped.date.as_deref().and_then(|date| httpdate::parse_http_date(date).ok());
        let now = now.unwrap_or_else(|| self.shared.now());
        let retry_after = fault.retry_after.as_deref();
        let after_ms = match decide(&self.policy, attempt, fault, now, retry_after, self.shared.throw()) {
            Decision::GiveUp(failure) => return Err(failure),
            Decision::Again { after_ms } => after_ms,
        };
        let end = |kind, why: String| Failure { kind, detail: format!("{}; {why}", fault.detail), attempts: attempt };
        if Duration::from_millis(after_ms) >= left {
            let left_ms = millis(left);
            let why = format!("the next try would be in {after_ms} ms and the call has {left_ms} ms left");
            return Err(end(fault.kind, why));
        }
        if !self.shared.purse.pay() {
            return Err(end(FailureKind::RetriesSpent, "the run has spent its budget of retries".to_owned()));
        }
        Ok(Duration::from_millis(after_ms))
    }

    fn tell(&self, failure: &Failure) {
        count(&self.counters.failed);
        tracing::warn!(endpoint = self.name, attempts = failure.attempts, "{failure}");
    }

    async fn limited_try<R: Reader>(
        &self,
        (ask, reader): (Ask, R),
        left: Duration,
        attempt: u32,
    ) -> Result<R::Out, Stopped> {
        let _counted = self.counters.start();
        if attempt > 1 {
            count(&self.counters.retries);
        }
        let limit = left.min(self.timeout);
        match tokio::time::timeout(limit, Box::pin(self.one_try(ask, reader))).await {
            Ok(result) => result,
            Err(_) => {
                let whose = if limit == self.timeout { "`timeout_ms`" } else { "the caller's limit" };
                let detail = format!("no whole answer within {} ms ({whose})", millis(limit));
                Err(Fault::new(FailureKind::TimedOut, true, detail).into())
            }
        }
    }

    async fn one_try<R: Reader>(&self, ask: Ask, reader: R) -> Result<R::Out, Stopped> {
        let tidy = |stopped: Stopped| Stopped { fault: stopped.fault.tidied(self.http.redactor()), ..stopped };
        let answer = match self.http.send(ask).await {
            Ok(answer) => answer,
            Err(stopped) => {
                if stopped.at_the_door {
                    reader.refused();
                }
                return Err(tidy(stopped));
            }
        };
        let read = if answer.events { read_events(answer, reader).await } else { read_body(answer, reader).await };
        read.map_err(|fault| tidy(fault.into()))
    }
}

async fn read_body<R: Reader>(answer: Answer, reader: R) -> Result<R::Out, Fault> {
    let html = answer.html;
    read_whole(reader, html, &answer.whole().await?)
}

async fn read_events<R: Reader>(mut answer: Answer, reader: R) -> Result<R::Out, Fault> {
    let mut stream = Stream::new(reader);
    loop {
        let patience = stream.complete().then_some(Duration::from_millis(AFTER_FINISH_MS));
        let piece = match answer.piece(patience).await {
            Ok(Some(piece)) => piece,
            Ok(None) => return stream.end(),
            // The answer was told to its end before the connection broke or fell silent: nothing is lost.
            Err(_) if stream.complete() => return stream.finish(),
            Err(fault) => return Err(fault),
        };
        if stream.take(piece.as_ref())? == Told::Done {
            let _end = answer.piece(Some(Duration::from_millis(DRAIN_MS))).await;
            return stream.finish();
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
