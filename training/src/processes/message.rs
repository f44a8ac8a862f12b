//! What processes of one run tell each other: a kind, a length and so many bytes. Floats go as their bits, so that a sum over
//! processes is that over threads.
//! It refuses to know sockets; it reads from whatever can be read.

use super::bytes::{Reader, Unread, Writer};
use crate::network::NetworkSettings;
use crate::pack::Pack;
use crate::rank::{StepDone, Update};
use legwork_kernels::Reduce;
use std::io::{self, Read};

/// Bytes of a message at most: of the largest tensor of a model that processors train, twice over.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Bytes of a message at most before its sender is known.
pub(super) const HELLO_BYTES_MAX: usize = 1 << 16;
/// Packs of a slot at most.
const PACKS_MAX: usize = 1 << 20;
/// Bytes of a kind and a length.
const HEAD_BYTES: usize = 5;
/// What a greeting begins with. Another form of messages has another number.
const GREETING: &[u8] = b"legwork ranks 1";

/// How a process presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the program.
    pub version: String,
    /// Its rank.
    pub rank: usize,
    /// Ranks that it was told of.
    pub ranks: usize,
    /// What it was started with, for the first rank to compare.
    pub described: String,
}

/// What a rank is made with, beside the model's files.
#[derive(Clone, Debug, PartialEq)]
pub struct Making {
    /// The names by which its card finds those among which the model is cut, and its replicas; none where there is no card, or
    /// nobody to find.
    pub names: [Option<Vec<u8>>; 2],
    /// The network's settings.
    pub settings: NetworkSettings,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverKind {
    /// All of it is done.
    Done,
    /// It was stopped.
    Stopped,
    /// It failed.
    Failed,
}

/// That a run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// How.
    pub kind: OverKind,
    /// Why, if it failed.
    pub why: String,
}

/// A message. Those to the first rank and from it are of one kind, since both read in the same way.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// Its sender is alive.
    Beat,
    /// To the first rank, at first. Owes: welcome or refused.
    Hello(Hello),
    /// From the first rank: it is one of them.
    Welcome,
    /// From the first rank: it is not, and why.
    Refused(String),
    /// To the first rank: somebody wants the run to end.
    StopAsked,
    /// From the first rank: somebody is no more, and nothing will come of what is under way.
    Left(String),
    /// From the first rank: the run is over.
    Over(Over),
    /// An order: make the rank. Owes: done.
    Make(Making),
    /// An order: take the checkpoint of this name. Owes: done.
    Restore(String),
    /// An order: save a part in the folder of this name. Owes: done.
    Save(String),
    /// An order: a step. Owes: stepped.
    Step(Vec<Pack>, Update),
    /// An order: an evaluation. Owes: evaluated.
    Evaluate(Vec<Pack>),
    /// An order was carried out.
    Done,
    /// A step was made.
    Stepped(StepDone),
    /// An evaluation was made.
    Evaluated(f64),
    /// An order or a meeting failed.
    Failed(String),
    /// To the first rank, in the midst of an order: meets those of a group. Owes: met or failed.
    Meet { group: usize, op: String, reduce: Reduce, values: Vec<f64> },
    /// From the first rank: what came of a meeting.
    Met(Vec<f64>),
}

impl Message {
    fn kind(&self) -> u8 {
        match self {
            Self::Beat => 0,
            Self::Hello(_) => 1,
            Self::Welcome => 2,
            Self::Refused(_) => 3,
            Self::StopAsked => 4,
            Self::Left(_) => 5,
            Self::Over(_) => 6,
            Self::Make(_) => 7,
            Self::Restore(_) => 8,
            Self::Save(_) => 9,
            Self::Step(..) => 10,
            Self::Evaluate(_) => 11,
            Self::Done => 12,
            Self::Stepped(_) => 13,
            Self::Evaluated(_) => 14,
            Self::Failed(_) => 15,
            Self::Meet { .. } => 16,
            Self::Met(_) => 17,
        }
    }

    /// What it is, in a word or two, for whoever expected another.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Beat => "a sign of life",
            Self::Hello(_) => "a greeting",
            Self::Welcome => "a welcome",
            Self::Refused(_) => "a refusal",
            Self::StopAsked => "a wish to end",
            Self::Left(_) => "word that somebody left",
            Self::Over(_) => "the end of the run",
            Self::Make(_) => "an order to make a rank",
            Self::Restore(_) => "an order to take a checkpoint",
            Self::Save(_) => "an order to save",
            Self::Step(..) => "an order to step",
            Self::Evaluate(_) => "an order to evaluate",
            Self::Done => "word that it is done",
            Self::Stepped(_) => "a step",
            Self::Evaluated(_) => "an evaluation",
            Self::Failed(_) => "a failure",
            Self::Meet { .. } => "a call to a meeting",
            Self::Met(_) => "what came of a meeting",
        }
    }

    /// As it is sent.
    ///
    /// # Errors
    /// One that nobody would read.
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut out = Writer(vec![0; HEAD_BYTES]);
        match self {
            Self::Beat | Self::Welcome | Self::StopAsked | Self::Done => {}
            Self::Hello(Hello { version, rank, ranks, described }) => {
                out.bytes(GREETING);
                out.bytes(version.as_bytes());
                out.size(*rank);
                out.size(*ranks);
                out.bytes(described.as_bytes());
            }
            Self::Refused(text) | Self::Left(text) | Self::Failed(text) => out.bytes(text.as_bytes()),
            Self::Restore(name) | Self::Save(name) => out.bytes(name.as_bytes()),
            Self::Over(Over { kind, why }) => {
                out.u8(*kind as u8);
                out.bytes(why.as_bytes());
            }
            Self::Make(making) => put_making(&mut out, making),
            Self::Step(packs, update) => {
                put_update(&mut out, update);
                put_packs(&mut out, packs);
            }
            Self::Evaluate(packs) => put_packs(&mut out, packs),
            Self::Stepped(StepDone { loss, grad_norm, updated }) => {
                out.f64(*loss);
                out.f64(*grad_norm);
                out.u8(u8::from(*updated));
            }
            Self::Evaluated(loss) => out.f64(*loss),
            Self::Meet { group, op, reduce, values } => {
                out.size(*group);
                out.bytes(op.as_bytes());
                put_reduce(&mut out, *reduce);
                out.f64s(values);
            }
            Self::Met(values) => out.f64s(values),
        }
        let Writer(mut bytes) = out;
        let length = bytes.len() - HEAD_BYTES;
        if length > MESSAGE_BYTES_MAX {
            let told = format!(
                "expected a message of at most {MESSAGE_BYTES_MAX} bytes, got {length}; cut the model more finely"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, told));
        }
        bytes[0] = self.kind();
        bytes[1..HEAD_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        Ok(bytes)
    }

    /// Reads one of at most so many bytes. Room is taken as bytes come, and not as its head claims.
    ///
    /// # Errors
    /// A connection that ended, or bytes that are no message.
    pub(super) fn read(from: &mut impl Read, bytes_max: usize) -> io::Result<Self> {
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > bytes_max {
            return Err(invalid(&format!("expected a message of at most {bytes_max} bytes, got one of {length}")));
        }
        let mut bytes = Vec::new();
        from.take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut reader = Reader::new(&bytes);
        let read = Self::of(kind, &mut reader).and_then(|message| reader.end().map(|()| message));
        read.map_err(|Unread(why)| invalid(&why))
    }

    fn of(kind: u8, from: &mut Reader<'_>) -> Result<Self, Unread> {
        Ok(match kind {
            0 => Self::Beat,
            1 => Self::Hello(hello(from)?),
            2 => Self::Welcome,
            3 => Self::Refused(from.text()?),
            4 => Self::StopAsked,
            5 => Self::Left(from.text()?),
            6 => Self::Over(Over { kind: over_kind(from)?, why: from.text()? }),
            7 => Self::Make(making(from)?),
            8 => Self::Restore(from.text()?),
            9 => Self::Save(from.text()?),
            10 => {
                let update = update(from)?;
                Self::Step(packs(from)?, update)
            }
            11 => Self::Evaluate(packs(from)?),
            12 => Self::Done,
            13 => Self::Stepped(StepDone { loss: from.f64()?, grad_norm: from.f64()?, updated: from.flag()? }),
            14 => Self::Evaluated(from.f64()?),
            15 => Self::Failed(from.text()?),
            16 => {
                let (group, op, reduce) = (from.size()?, from.text()?, reduce(from)?);
                Self::Meet { group, op, reduce, values: from.f64s()? }
            }
            17 => Self::Met(from.f64s()?),
            other => return Err(Unread(format!("expected a kind of message from 0 to 17, got {other}"))),
        })
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{why}; is it a process of `legwork train` of this version?"))
}

fn hello(from: &mut Reader<'_>) -> Result<Hello, Unread> {
    if from.bytes()? != GREETING {
        return Err(Unread("expected the greeting of a rank, got another".to_owned()));
    }
    Ok(Hello { version: from.text()?, rank: from.size()?, ranks: from.size()?, described: from.text()? })
}

fn over_kind(from: &mut Reader<'_>) -> Result<OverKind, Unread> {
    let kinds = [OverKind::Done, OverKind::Stopped, OverKind::Failed];
    let kind = from.u8()?;
    kinds.into_iter().find(|known| *known as u8 == kind).ok_or_else(|| Unread(format!("expected an end, got {kind}")))
}

fn put_making(out: &mut Writer, Making { names, settings }: &Making) {
    for name in names {
        out.u8(u8::from(name.is_some()));
        out.bytes(name.as_deref().unwrap_or_default());
    }
    let NetworkSettings { rows_max, keep_attention, keep_products, softmax_over_padding } = *settings;
    out.size(rows_max);
    [keep_attention, keep_products, softmax_over_padding].into_iter().for_each(|flag| out.u8(u8::from(flag)));
}

fn making(from: &mut Reader<'_>) -> Result<Making, Unread> {
    let mut name = || -> Result<Option<Vec<u8>>, Unread> {
        let (is_some, bytes) = (from.flag()?, from.bytes()?);
        Ok(is_some.then(|| bytes.to_vec()))
    };
    let names = [name()?, name()?];
    let rows_max = from.size()?;
    let (keep_attention, keep_products, softmax_over_padding) = (from.flag()?, from.flag()?, from.flag()?);
    Ok(Making { names, settings: NetworkSettings { rows_max, keep_attention, keep_products, softmax_over_padding } })
}

fn put_update(out: &mut Writer, update: &Update) {
    let Update { step, rate, clip, beta1, beta2, eps, decay } = *update;
    out.u64(step);
    [rate, clip, beta1, beta2, eps, decay].into_iter().for_each(|value| out.f64(value));
}

fn update(from: &mut Reader<'_>) -> Result<Update, Unread> {
    let step = from.u64()?;
    let (rate, clip, beta1) = (from.f64()?, from.f64()?, from.f64()?);
    let (beta2, eps, decay) = (from.f64()?, from.f64()?, from.f64()?);
    Ok(Update { step, rate, clip, beta1, beta2, eps, decay })
}

fn put_packs(out: &mut Writer, packs: &[Pack]) {
    out.size(packs.len());
    for Pack { ids, positions, starts, rows, targets, weights, samples } in packs {
        [ids, positions, starts, rows, targets, samples].into_iter().for_each(|values| out.u32s(values));
        out.f32s(weights);
    }
}

fn packs(from: &mut Reader<'_>) -> Result<Vec<Pack>, Unread> {
    let count = from.size()?;
    if count > PACKS_MAX {
        return Err(Unread(format!("expected at most {PACKS_MAX} packs, got {count}")));
    }
    let mut packs = Vec::new();
    for _ in 0..count {
        let (ids, positions, starts) = (from.u32s()?, from.u32s()?, from.u32s()?);
        let (rows, targets, samples, weights) = (from.u32s()?, from.u32s()?, from.u32s()?, from.f32s()?);
        packs.push(Pack { ids, positions, starts, rows, targets, weights, samples });
    }
    Ok(packs)
}

fn put_reduce(out: &mut Writer, reduce: Reduce) {
    let (kind, rank) = match reduce {
        Reduce::Sum => (0, 0),
        Reduce::Max => (1, 0),
        Reduce::Of(rank) => (2, rank),
    };
    out.u8(kind);
    out.size(rank);
}

fn reduce(from: &mut Reader<'_>) -> Result<Reduce, Unread> {
    match (from.u8()?, from.size()?) {
        (0, _) => Ok(Reduce::Sum),
        (1, _) => Ok(Reduce::Max),
        (2, rank) => Ok(Reduce::Of(rank)),
        (other, _) => Err(Unread(format!("expected a sum, a maximum or the values of a rank, got {other}"))),
    }
}

#[cfg(test)]
mod tests;
