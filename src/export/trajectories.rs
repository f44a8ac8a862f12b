//! Chat rows: the conversation of each worker that finished, thinking kept. Where the episode was right and the worker
//! was not, the last report is out of the loss (the sibling models' "process" rows).

use super::lineage::{self, Source};
use super::walk::{EpisodeView, Talk, Walk};
use super::{ExportError, Options, Summary};
use legwork_protocol::message::Role;
use legwork_training::JsonlWriter;
use legwork_training::trajectory::{ChatMessage, ChatRow};
use std::num::NonZeroU32;
use std::path::Path;

pub(super) fn write(walk: &Walk<'_>, out: &Path, options: &Options, summary: &mut Summary) -> Result<(), ExportError> {
    let mut written = JsonlWriter::create(out)?;
    walk.each(summary, |episode, summary| rows(walk, episode, options, summary, &mut |row| Ok(written.write(&row)?)))?;
    written.finish()?;
    Ok(())
}

/// The rows of an episode, one after the other.
pub(super) fn rows(
    walk: &Walk<'_>,
    episode: &EpisodeView,
    options: &Options,
    summary: &mut Summary,
    take: &mut dyn FnMut(ChatRow) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    if let Some(why) = lineage::why_no_episode(episode, options) {
        summary.left_out(why);
        return Ok(());
    }
    for talk in lineage::talks(walk, episode) {
        match row(walk, episode, &talk, options) {
            Ok(row) => {
                take(row)?;
                summary.written += 1;
            }
            Err(why) => summary.left_out(why),
        }
    }
    Ok(())
}

/// Ends a conversation with its model's turn of this number.
fn keep_first(messages: &mut Vec<ChatMessage>, turns: NonZeroU32) {
    let mut turns_at = messages.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant);
    if let Some((last, _)) = turns_at.nth(turns.get() as usize - 1) {
        messages.truncate(last + 1);
    }
}

fn row(walk: &Walk<'_>, episode: &EpisodeView, talk: &Talk<'_>, options: &Options) -> Result<ChatRow, &'static str> {
    let source = lineage::source(walk, episode, talk, options)?;
    let mut messages: Vec<ChatMessage> = talk.messages.iter().map(|message| ChatMessage::from(&**message)).collect();
    if source == Source::Process
        && let Some(last) = messages.iter_mut().rfind(|message| message.role == Role::Assistant)
    {
        last.step_loss_mask = Some(0);
    }
    if let Some(first) = options.first_turns {
        keep_first(&mut messages, first);
    }
    let metadata = lineage::metadata(walk, episode, talk, source, options);
    let row = ChatRow { messages, metadata, ..ChatRow::default() };
    if row.supervised() == 0 { Err("rows with nothing in the loss") } else { Ok(row) }
}
