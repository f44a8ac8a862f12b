//! Findings about what the configuration names: the folder of runs, servers and keys, tokenizers, corpus and index.

use super::{bad, good, note, size};
use crate::doctor::Finding;
use crate::doctor::inputs::{DoctorInputs, EndpointInput, KeySource};
use crate::doctor::seen::{CorpusSeen, Endpoint, Folder, IndexSeen, Key};
use legwork_report::number::count;
use std::path::Path;

/// With less room than this a run cannot be kept, in bytes.
const ROOM_BAD_BELOW: u64 = 64 << 20;
/// With less room than this a large run may fill the disk, in bytes.
const ROOM_NOTE_BELOW: u64 = 5 << 30;

pub(super) fn runs(seen: &Folder, asked: &Path) -> Finding {
    let name = asked.display();
    match (&seen.refused, seen.exists) {
        (Some(error), _) => bad(
            "runs folder",
            format!("{name}: nothing can be written to {}: {error}", seen.nearest.display()),
            "make the folder writable, or name another as run.folder",
        ),
        (None, true) => good("runs folder", format!("{name}: writable")),
        (None, false) => {
            good("runs folder", format!("{name}: not there yet, can be made in {}", seen.nearest.display()))
        }
    }
}

pub(super) fn room(seen: &Folder) -> Option<Finding> {
    let free = seen.free_bytes?;
    let saw = format!("{} free", size(free));
    Some(if free < ROOM_BAD_BELOW {
        bad("disk", saw, "free some room, or name a folder on another disk as run.folder")
    } else if free < ROOM_NOTE_BELOW {
        note("disk", saw, format!("long runs and large indexes want {} or more", size(ROOM_NOTE_BELOW)))
    } else {
        good("disk", saw)
    })
}

pub(super) fn endpoints(inputs: &[EndpointInput], seen: &[Endpoint], proxy: Option<&str>) -> Vec<Finding> {
    if inputs.is_empty() {
        return vec![good("endpoints", "none: no server is asked for a model")];
    }
    let pairs = inputs.iter().zip(seen);
    pairs.flat_map(|(input, seen)| [Some(reached(input, seen, proxy)), key(input, seen)]).flatten().collect()
}

fn reached(input: &EndpointInput, seen: &Endpoint, proxy: Option<&str>) -> Finding {
    let what = format!("endpoint {}", input.name);
    let address = match &seen.address {
        Ok(address) => address,
        Err(error) => return bad(what, error, format!("correct {}.url", input.name)),
    };
    match (&seen.connected, proxy) {
        (Ok(ms), _) => good(what, format!("{address} accepts connections ({ms} ms)")),
        (Err(error), Some(proxy)) if !seen.is_loopback => note(
            what,
            format!("{address} cannot be reached directly: {error}"),
            format!("requests go through the proxy in {proxy}, which was not tried: nothing to do if it lets them"),
        ),
        (Err(error), _) => bad(
            what,
            format!("{address}: {error}"),
            "start the server, or correct the URL; check name resolution and firewall",
        ),
    }
}

fn key(input: &EndpointInput, seen: &Endpoint) -> Option<Finding> {
    let what = format!("key {}", input.name);
    let place = match input.key.as_ref()? {
        KeySource::Env(name) => format!("variable {name}"),
        KeySource::File(path) => format!("file {}", path.display()),
    };
    Some(match &seen.key {
        Key::NotWanted => return None,
        Key::Missing(why) => {
            let cure = match &input.key {
                Some(KeySource::Env(name)) => format!("export {name}, or name a key_file"),
                _ => "write the key, and nothing else, into the file".to_owned(),
            };
            bad(what, format!("{place}: {why}"), cure)
        }
        Key::Present | Key::PresentForAll if !seen.is_encrypted && !seen.is_loopback && seen.address.is_ok() => {
            note(what, format!("{place}: present, but travels unencrypted"), "use an https URL")
        }
        Key::PresentForAll => {
            note(what, format!("{place}: present, and others may read the file"), "chmod 600 the file")
        }
        Key::Present => good(what, format!("{place}: present")),
    })
}

pub(super) fn tokenizers(inputs: &DoctorInputs, seen: &[Result<u64, String>]) -> Vec<Finding> {
    if inputs.tokenizers.is_empty() {
        let saw = "none: tokens are counted by a stated rule";
        return vec![if inputs.endpoints.is_empty() {
            good("tokenizers", saw)
        } else {
            note(
                "tokenizers",
                format!("{saw}, and budgets are only near the model's own"),
                "name the model's tokenizer.json as tokenizers.worker",
            )
        }];
    }
    let pairs = inputs.tokenizers.iter().zip(seen);
    pairs
        .map(|(file, seen)| match seen {
            Ok(tokens) => good(&file.name, format!("{}: works ({tokens} tokens for a sample)", file.path.display())),
            Err(error) => bad(&file.name, error, format!("correct {}", file.name)),
        })
        .collect()
}

/// Models in this process bring their tokenizers along.
pub(super) fn models(inputs: &DoctorInputs, seen: &[Result<String, String>]) -> Vec<Finding> {
    let pairs = inputs.models.iter().zip(seen);
    pairs
        .map(|(file, seen)| match seen {
            Ok(shape) => good(&file.name, format!("{}: {shape}", file.path.display())),
            Err(error) => bad(&file.name, error, format!("correct {}.local, or fetch the model anew", file.name)),
        })
        .collect()
}

pub(super) fn corpus(inputs: &DoctorInputs, seen: Option<&Result<CorpusSeen, String>>) -> Finding {
    match (&inputs.corpus, seen) {
        (Some(path), Some(Ok(corpus))) => {
            good("corpus", format!("{}: {}, the first document reads", path.display(), size(corpus.bytes)))
        }
        (Some(_), Some(Err(error))) => {
            bad("corpus", error, "correct the path in the world's settings, or repair the file")
        }
        _ => good("corpus", "none given: the world brings its own, or a server holds it"),
    }
}

pub(super) fn index(
    inputs: &DoctorInputs,
    seen: Option<&Result<IndexSeen, String>>,
    corpus: Option<&Result<CorpusSeen, String>>,
) -> Finding {
    let (Some(path), Some(seen)) = (&inputs.index, seen) else {
        return good("index", "none given: one is built from the corpus when a run needs it");
    };
    let index = match seen {
        Ok(index) => index,
        Err(error) => return bad("index", error, "legwork index builds one"),
    };
    let vectors = match &index.vectors {
        None => "no vectors".to_owned(),
        Some((dim, source)) => format!("vectors of {dim} values from {source}"),
    };
    let saw = format!("{}: {} documents, {vectors}", path.display(), count(index.documents));
    let digest = corpus.and_then(|corpus| corpus.as_ref().ok()).and_then(|corpus| corpus.digest.as_ref());
    match digest {
        Some(digest) if *digest == index.corpus_digest => good("index", format!("{saw}; of this corpus")),
        Some(_) => bad(
            "index",
            format!("{saw}; of another corpus"),
            "legwork index builds one of this corpus, or give the corpus that it is of",
        ),
        None => good("index", format!("{saw}; not compared with a corpus")),
    }
}
