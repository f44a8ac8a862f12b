//! What goes between this process and that of a model: frames of a kind, whole numbers and bytes, little-endian as all machines are
//! that two processes share. It refuses to know what is asked for.
//!
//! A frame that claims more than it brings ends as a cut stream; room is made for what has come.

use crate::forward::{ModelLimits, Next};
use legwork_kernels::{Batch, DrawRules, RowDraw, Span};
use std::io::{self, Read, Write};

/// Numbers of a frame at most: more than a step of the longest contexts has pages.
const WORDS_MAX: u64 = 1 << 26;
/// Bytes of a frame at most: pages of a conversation, or logits of a step.
const BYTES_MAX: u64 = 1 << 34;
/// Bytes for which there is room before any has come.
const PIECE_BYTES: u64 = 16 << 20;
/// Numbers that say how one row is drawn from, and what was drawn from it.
const RULE_WORDS: usize = 11;
const NEXT_WORDS: usize = 6;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Open a model: how, in words of its owner.
    Open = 1,
    /// Compute a step, and bring all logits.
    Forward,
    /// Compute a step, and draw.
    Draw,
    /// Bring pages.
    Save,
    /// Take pages.
    Load,
    /// It is open: its limits.
    Opened,
    /// What was asked for.
    Done,
    /// Why it could not be done, and whether the device failed.
    Failed,
}

const KINDS: [Kind; 8] =
    [Kind::Open, Kind::Forward, Kind::Draw, Kind::Save, Kind::Load, Kind::Opened, Kind::Done, Kind::Failed];

/// One message.
#[derive(Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) words: Vec<u32>,
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    pub(super) fn write(kind: Kind, words: &[u32], bytes: &[u8], to: &mut impl Write) -> io::Result<()> {
        to.write_all(&[kind as u8])?;
        to.write_all(&(words.len() as u64).to_le_bytes())?;
        to.write_all(&(bytes.len() as u64).to_le_bytes())?;
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        to.write_all(&words)?;
        to.write_all(bytes)?;
        to.flush()
    }

    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut head = [0; 17];
        from.read_exact(&mut head)?;
        let kind = KINDS.into_iter().find(|kind| *kind as u8 == head[0]);
        let kind = kind.ok_or_else(|| wrong(format!("a message of the kind {}", head[0])))?;
        let count = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
        let (words, bytes) = (count(1), count(9));
        if words > WORDS_MAX || bytes > BYTES_MAX {
            return Err(wrong(format!("a message of {words} numbers and {bytes} bytes")));
        }
        // What has come decides for how much more there is room, and in the end there is room for no more than that.
        let mut piece = |length: u64| {
            let mut read = Vec::new();
            while (read.len() as u64) < length {
                let more = (length - read.len() as u64).min((read.len() as u64).max(PIECE_BYTES));
                read.reserve_exact(more as usize);
                if from.by_ref().take(more).read_to_end(&mut read)? as u64 != more {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
            }
            Ok(read)
        };
        let words = piece(4 * words)?.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Ok(Self { kind, words, bytes: piece(bytes)? })
    }
}

fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// A batch as numbers, behind those that are there.
pub(super) fn put_batch(batch: &Batch, words: &mut Vec<u32>) {
    let lists = [&batch.ids, &batch.positions, &batch.pages, &batch.wanted];
    words.extend(lists.map(|list| list.len() as u32));
    words.push(batch.spans.len() as u32);
    lists.into_iter().for_each(|list| words.extend(list));
    for span in &batch.spans {
        words.extend([span.first, span.rows, span.past, span.first_page].map(|value| value as u32));
    }
}

/// The batch that numbers begin with, and what is behind it; none where they are no batch.
pub(super) fn take_batch(words: &[u32]) -> Option<(Batch, &[u32])> {
    let (counts, mut rest) = words.split_at_checked(5)?;
    let mut list = |count: u32| {
        let (list, behind) = rest.split_at_checked(count as usize)?;
        rest = behind;
        Some(list.to_vec())
    };
    let [ids, positions, pages, wanted] = [list(counts[0])?, list(counts[1])?, list(counts[2])?, list(counts[3])?];
    let spans = list(counts[4].checked_mul(4)?)?;
    let spans = spans.as_chunks::<4>().0.iter().map(|span| {
        let [first, rows, past, first_page] = span.map(|value| value as usize);
        Span { first, rows, past, first_page }
    });
    Some((Batch { ids, positions, spans: spans.collect(), pages, wanted }, rest))
}

pub(super) fn put_rules(rules: &[Option<DrawRules>], words: &mut Vec<u32>) {
    for rules in rules {
        let DrawRules { temperature, top_p, min_p, seed, position } = rules.unwrap_or_default();
        words.push(rules.is_some().into());
        let longs = [temperature.to_bits(), top_p.to_bits(), min_p.to_bits(), seed, position];
        words.extend(longs.into_iter().flat_map(halves));
    }
}

pub(super) fn take_rules(words: &[u32]) -> Option<Vec<Option<DrawRules>>> {
    let (rules, rest) = words.as_chunks::<RULE_WORDS>();
    let of = |words: &[u32; RULE_WORDS]| {
        let at = |index: usize| long(words[1 + 2 * index], words[2 + 2 * index]);
        let [temperature, top_p, min_p] = [0, 1, 2].map(|index| f64::from_bits(at(index)));
        (words[0] != 0).then_some(DrawRules { temperature, top_p, min_p, seed: at(3), position: at(4) })
    };
    rest.is_empty().then(|| rules.iter().map(of).collect())
}

pub(super) fn put_next(next: &[Next], words: &mut Vec<u32>) {
    for next in next {
        words.extend(match next {
            Next::Logits(row) => [0, *row as u32, 0, 0, 0, 0],
            Next::Drawn(RowDraw { id, logit, top, mass }) => {
                let [low, high] = halves(*mass);
                [1, *id, logit.to_bits(), top.to_bits(), low, high]
            }
        });
    }
}

pub(super) fn take_next(words: &[u32]) -> Option<Vec<Next>> {
    let (next, rest) = words.as_chunks::<NEXT_WORDS>();
    let of = |[is_drawn, id, logit, top, low, high]: &[u32; NEXT_WORDS]| match is_drawn {
        0 => Next::Logits(*id as usize),
        _ => Next::Drawn(RowDraw {
            id: *id,
            logit: f32::from_bits(*logit),
            top: f32::from_bits(*top),
            mass: long(*low, *high),
        }),
    };
    rest.is_empty().then(|| next.iter().map(of).collect())
}

pub(super) fn put_limits(limits: &ModelLimits) -> Vec<u32> {
    let ModelLimits { vocabulary, context, pages, rows_max } = *limits;
    [vocabulary, context, pages, rows_max].into_iter().flat_map(|limit| halves(limit as u64)).collect()
}

pub(super) fn take_limits(words: &[u32]) -> Option<ModelLimits> {
    let words: &[u32; 8] = words.try_into().ok()?;
    let [vocabulary, context, pages, rows_max] =
        [0, 1, 2, 3].map(|index| long(words[2 * index], words[2 * index + 1]) as usize);
    Some(ModelLimits { vocabulary, context, pages, rows_max })
}

pub(super) fn floats_to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(super) fn floats(bytes: &[u8]) -> Option<Vec<f32>> {
    let (values, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut batch = Batch::default();
        batch.push(&[7, 8, 9], 62, &[4, 2], true);
        batch.push(&[1], 0, &[3], false);
        let rules = [Some(DrawRules { temperature: 0.6, top_p: 0.95, min_p: 0.1, seed: u64::MAX, position: 3 }), None];
        let mut words = Vec::new();
        put_batch(&batch, &mut words);
        put_rules(&rules, &mut words);
        let mut stream = Vec::new();
        Frame::write(Kind::Draw, &words, b"bytes", &mut stream).unwrap();
        let frame = Frame::read(&mut stream.as_slice()).unwrap();
        assert_eq!(frame, Frame { kind: Kind::Draw, words, bytes: b"bytes".to_vec() });
        let (read, rest) = take_batch(&frame.words).unwrap();
        assert_eq!((read, take_rules(rest).unwrap().as_slice()), (batch, &rules[..]));
        let next = [Next::Logits(5), Next::Drawn(RowDraw { id: 3, logit: -1.5, top: 2.0, mass: 1 << 50 })];
        let mut words = Vec::new();
        put_next(&next, &mut words);
        assert_eq!(take_next(&words).unwrap(), next);
        let limits = ModelLimits { vocabulary: 9, context: usize::MAX, pages: 3, rows_max: 4 };
        assert_eq!(take_limits(&put_limits(&limits)), Some(limits));
    }

    #[test]
    fn cut_and_lying_messages_are_refused() {
        let mut stream = Vec::new();
        Frame::write(Kind::Save, &[1, 2, 3], b"abc", &mut stream).unwrap();
        for cut in 0..stream.len() {
            assert!(Frame::read(&mut &stream[..cut]).is_err(), "{cut} bytes");
        }
        stream[0] = 99;
        assert!(Frame::read(&mut stream.as_slice()).is_err());
        stream[0] = 1;
        stream[7] = 0xff;
        assert!(Frame::read(&mut stream.as_slice()).is_err());
        for words in [&[][..], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, u32::MAX], &[u32::MAX, 1, 1, 1, 1, 1]] {
            assert!(take_batch(words).is_none(), "{words:?}");
        }
        assert!(take_rules(&[1; 12]).is_none() && take_next(&[1; 5]).is_none() && take_limits(&[1]).is_none());
    }
}
