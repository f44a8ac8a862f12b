//! What a model's process does: it opens what it is told to, and answers one message with one, until nobody asks any more or its
//! device has failed. It refuses to know requests.

use super::wire::{self, Frame, Kind};
use super::{Opening, lost};
use crate::local::device::Place;
use crate::local::maker;
use crate::local::opening::LocalError;
use legwork_model::{Forward, ModelError};
use std::io::{self, Read, Write};

/// Serves a model to the process that started this one, by its two ends of a pipe.
///
/// # Errors
/// A pipe that broke in the middle of a message. That nobody asks any more is no error.
pub fn serve(mut asks: impl Read, mut answers: impl Write) -> io::Result<()> {
    let Some(first) = read(&mut asks)? else { return Ok(()) };
    let mut model = match open(&first) {
        Ok(model) => model,
        Err(error) => return fail(false, &error.to_string(), &mut answers),
    };
    Frame::write(Kind::Opened, &wire::put_limits(&model.limits()), &[], &mut answers)?;
    while let Some(frame) = read(&mut asks)? {
        match answer(&mut *model, &frame) {
            Ok((words, bytes)) => Frame::write(Kind::Done, &words, &bytes, &mut answers)?,
            Err(error) => {
                fail(error.is_of_device(), &error.to_string(), &mut answers)?;
                if error.is_of_device() {
                    // What the card held is lost, and letting go of it in order may take for ever.
                    std::mem::forget(model);
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// The next message; none where the other side has ended between two.
fn read(asks: &mut impl Read) -> io::Result<Option<Frame>> {
    match Frame::read(asks) {
        Ok(frame) => Ok(Some(frame)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn fail(device: bool, why: &str, answers: &mut impl Write) -> io::Result<()> {
    Frame::write(Kind::Failed, &[device.into()], why.as_bytes(), answers)
}

fn open(first: &Frame) -> Result<Box<dyn Forward + Send>, LocalError> {
    let opening: Opening = serde_json::from_slice(&first.bytes)
        .map_err(|error| LocalError::Process(format!("it was told something else than a model: {error}")))?;
    let place = opening.card.map_or(Place::Processor, Place::Card);
    maker::model(&opening.path, &opening.settings, place)
}

type Answer = (Vec<u32>, Box<[u8]>);

fn answer(model: &mut dyn Forward, frame: &Frame) -> Result<Answer, ModelError> {
    let mut logits = Vec::new();
    match frame.kind {
        Kind::Forward => {
            let (batch, _) = wire::take_batch(&frame.words).ok_or_else(|| lost("a batch that is cut"))?;
            model.forward(&batch, &mut logits)?;
            Ok((Vec::new(), wire::floats_to_bytes(&logits).into()))
        }
        Kind::Draw => {
            let (batch, rest) = wire::take_batch(&frame.words).ok_or_else(|| lost("a batch that is cut"))?;
            let rules = wire::take_rules(rest).ok_or_else(|| lost("rules that are cut"))?;
            let (mut next, mut words) = (Vec::new(), Vec::new());
            model.forward_and_draw(&batch, &rules, &mut next, &mut logits)?;
            wire::put_next(&next, &mut words);
            Ok((words, wire::floats_to_bytes(&logits).into()))
        }
        Kind::Save => Ok((Vec::new(), Box::from(&*model.save_pages(&frame.words)?))),
        Kind::Load => {
            model.load_pages(&frame.words, &frame.bytes)?;
            Ok((Vec::new(), Box::default()))
        }
        Kind::Open | Kind::Opened | Kind::Done | Kind::Failed => Err(lost("a message out of turn")),
    }
}
