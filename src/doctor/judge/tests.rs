//! Every judgement, from a sound machine with one thing changed at a time.

use super::*;
use crate::doctor::inputs::{EndpointInput, FileInput, KeySource};
use crate::doctor::seen::{CorpusSeen, Endpoint, Folder, Gpu, IndexSeen, Key, Memory, Processor, Terminal};
use crate::terminal::WatchMode;
use std::path::PathBuf;

fn inputs() -> DoctorInputs {
    DoctorInputs {
        runs_folder: "runs".into(),
        concurrency: 64,
        has_gpu_code: true,
        endpoints: vec![EndpointInput {
            name: "models.worker".to_owned(),
            url: "https://user:hunter22@host/v1".to_owned(),
            key: Some(KeySource::Env("WORKER_KEY".to_owned())),
        }],
        tokenizers: vec![FileInput { name: "tokenizers.worker".to_owned(), path: "tokenizer.json".into() }],
        models: vec![FileInput { name: "models.judge".to_owned(), path: "judge.gguf".into() }],
        index: Some("index".into()),
        corpus: Some("corpus.jsonl".into()),
    }
}

fn seen() -> Seen {
    Seen {
        processor: Processor { architecture: "x86_64", cores: 2, vector: vec!["avx2", "fma"] },
        memory: Some(Memory { total_bytes: 24 << 30, available_bytes: 22 << 30 }),
        open_files_max: Some(1_024),
        gpu: Gpu {
            devices: 1,
            names: vec!["NVIDIA H200".to_owned()],
            driver: Some("570.133.20".to_owned()),
            libcuda: Some("/usr/lib/libcuda.so.1".into()),
            nvrtc: Some("/usr/lib/libnvrtc.so.13".into()),
            cublaslt: Some("/usr/lib/libcublasLt.so.13".into()),
            nccl: None,
        },
        runs: Folder { nearest: "/home/runs".into(), exists: true, refused: None, free_bytes: Some(100 << 30) },
        endpoints: vec![Endpoint {
            address: Ok("host:443".to_owned()),
            is_encrypted: true,
            is_loopback: false,
            connected: Ok(12),
            key: Key::Present,
        }],
        proxy_variable: None,
        tokenizers: vec![Ok(9)],
        models: vec![Ok("qwen3, 36 layers of 2560".to_owned())],
        index: Some(Ok(IndexSeen { documents: 100_195, corpus_digest: "d1".to_owned(), vectors: None })),
        corpus: Some(Ok(CorpusSeen { bytes: 3 << 30, digest: Some("d1".to_owned()) })),
        terminal: Terminal {
            mode: WatchMode::Live,
            term: Some("xterm".to_owned()),
            size: Some((80, 24)),
            has_utf8: true,
        },
    }
}

/// The finding of this name after a change to a sound machine.
fn found(what: &str, change: impl FnOnce(&mut DoctorInputs, &mut Seen)) -> Finding {
    let (mut inputs, mut seen) = (inputs(), seen());
    change(&mut inputs, &mut seen);
    let findings = judge(&inputs, &seen);
    findings
        .into_iter()
        .find(|finding| finding.what == what)
        .unwrap_or_else(|| panic!("nothing was found about {what}"))
}

fn is(finding: &Finding, state: State, part: &str) {
    assert_eq!(finding.state, state, "{finding:?}");
    let text = format!("{} {}", finding.saw, finding.cure.as_deref().unwrap_or_default());
    assert!(text.contains(part), "{part:?} is missing in {finding:?}");
    assert_eq!(finding.cure.is_some(), state != State::Good, "what is to be done has a cure: {finding:?}");
}

#[test]
fn a_sound_machine_is_good_throughout_and_shows_no_secret() {
    let findings = judge(&inputs(), &seen());
    assert!(findings.iter().all(|finding| finding.state == State::Good), "{findings:#?}");
    assert!(!format!("{findings:?}").contains("hunter22"));
    is(
        &found("gpu", |_, _| ()),
        State::Good,
        "NVIDIA H200, driver 570.133.20: a model runs on it where --device says cuda",
    );
    is(&found("index", |_, _| ()), State::Good, "100,195 documents, no vectors; of this corpus");
}

#[test]
fn little_of_the_machine_is_noted_and_too_little_is_bad() {
    let memory =
        |bytes| found("memory", |_, seen| seen.memory = Some(Memory { total_bytes: 8 << 30, available_bytes: bytes }));
    is(&memory(1 << 30), State::Note, "1.0 GiB available of 8.0 GiB");
    is(&memory(100 << 20), State::Bad, "100.0 MiB");
    is(&found("processor", |_, seen| seen.processor.vector.clear()), State::Note, "avx2");
    is(&found("open files", |inputs, _| inputs.concurrency = 512), State::Note, "ulimit -n 2176");
    is(&found("open files", |_, seen| seen.open_files_max = Some(u64::MAX)), State::Good, "no limit");
    is(&found("disk", |_, seen| seen.runs.free_bytes = Some(1 << 30)), State::Note, "1.0 GiB free");
    is(&found("disk", |_, seen| seen.runs.free_bytes = Some(0)), State::Bad, "0 bytes free");
}

#[test]
fn what_runs_on_the_cpu_is_said_with_the_reason() {
    let gpu = |change: fn(&mut DoctorInputs, &mut Seen)| found("gpu", change);
    is(&gpu(|_, seen| seen.gpu = Gpu::default()), State::Good, "no GPU: everything runs on the CPU");
    is(&gpu(|_, seen| seen.gpu.devices = 0), State::Note, "no device: everything runs on the CPU");
    is(&gpu(|_, seen| seen.gpu.libcuda = None), State::Note, "no libcuda.so: everything runs on the CPU");
    is(&gpu(|inputs, _| inputs.has_gpu_code = false), State::Note, "no code for it: everything runs on the CPU");
    is(&gpu(|_, seen| seen.gpu.nvrtc = None), State::Note, "unused without nvrtc");
    is(&gpu(|_, seen| seen.gpu.cublaslt = None), State::Note, "unused without cublasLt");
    is(&gpu(|_, seen| seen.gpu.devices = 2), State::Good, "cuda:all");
    is(&found("nvrtc", |_, seen| seen.gpu.nvrtc = None), State::Note, "CUDA_HOME");
    is(&found("nvrtc", |_, seen| seen.gpu = Gpu::default()), State::Good, "not needed");
    is(&found("cublasLt", |_, seen| seen.gpu.cublaslt = None), State::Note, "CUDA 13");
    is(&found("nccl", |_, _| ()), State::Good, "not needed");
    is(&found("nccl", |_, seen| seen.gpu.devices = 2), State::Note, "LD_LIBRARY_PATH");
}

#[test]
fn a_folder_that_refuses_is_bad_and_one_that_is_not_there_is_not() {
    is(&found("runs folder", |_, seen| seen.runs.refused = Some("read-only".to_owned())), State::Bad, "read-only");
    is(&found("runs folder", |_, seen| seen.runs.exists = false), State::Good, "can be made in /home/runs");
}

#[test]
fn a_server_that_cannot_be_reached_is_bad_unless_a_proxy_may_reach_it() {
    let refused = |seen: &mut Seen| seen.endpoints[0].connected = Err("refused".to_owned());
    is(&found("endpoint models.worker", |_, seen| refused(seen)), State::Bad, "host:443: refused");
    let through = |inputs: &mut DoctorInputs, seen: &mut Seen| {
        let _ = inputs;
        refused(seen);
        seen.proxy_variable = Some("HTTPS_PROXY");
    };
    is(&found("endpoint models.worker", through), State::Note, "HTTPS_PROXY");
    let own = |inputs: &mut DoctorInputs, seen: &mut Seen| {
        through(inputs, seen);
        seen.endpoints[0].is_loopback = true;
    };
    is(&found("endpoint models.worker", own), State::Bad, "start the server");
    is(
        &found("endpoint models.worker", |_, seen| seen.endpoints[0].address = Err("expected a URL".to_owned())),
        State::Bad,
        "correct models.worker.url",
    );
    is(
        &found("endpoints", |inputs, seen| {
            inputs.endpoints.clear();
            seen.endpoints.clear();
        }),
        State::Good,
        "none",
    );
}

#[test]
fn a_key_is_present_missing_open_to_all_or_unencrypted() {
    let with = |key: Key| found("key models.worker", |_, seen| seen.endpoints[0].key = key);
    is(&with(Key::Present), State::Good, "variable WORKER_KEY: present");
    is(&with(Key::Missing("the variable is not set".to_owned())), State::Bad, "export WORKER_KEY");
    is(&with(Key::PresentForAll), State::Note, "chmod 600");
    is(&found("key models.worker", |_, seen| seen.endpoints[0].is_encrypted = false), State::Note, "use an https URL");
    let file = |inputs: &mut DoctorInputs, seen: &mut Seen| {
        inputs.endpoints[0].key = Some(KeySource::File(PathBuf::from("worker.key")));
        seen.endpoints[0].key = Key::Missing("the file is blank".to_owned());
    };
    is(&found("key models.worker", file), State::Bad, "file worker.key: the file is blank");
}

#[test]
fn a_model_in_this_process_is_told_by_its_shape_or_by_what_is_wrong_with_it() {
    is(&found("models.judge", |_, _| ()), State::Good, "36 layers");
    let broken = |_: &mut DoctorInputs, seen: &mut Seen| seen.models = vec![Err("blk.3 is missing".to_owned())];
    is(&found("models.judge", broken), State::Bad, "fetch the model anew");
}

#[test]
fn tokenizers_corpus_and_index_are_each_judged_by_what_needs_them() {
    is(
        &found("tokenizers.worker", |_, seen| seen.tokenizers = vec![Err("no json".to_owned())]),
        State::Bad,
        "correct tokenizers.worker",
    );
    let none = |inputs: &mut DoctorInputs, seen: &mut Seen| {
        inputs.tokenizers.clear();
        seen.tokenizers.clear();
    };
    is(&found("tokenizers", none), State::Note, "tokenizer.json");
    is(&found("corpus", |_, seen| seen.corpus = Some(Err("line 3: no docid".to_owned()))), State::Bad, "line 3");
    is(&found("index", |_, seen| seen.index = Some(Err("expected schema 1".to_owned()))), State::Bad, "legwork index");
    let other = |_: &mut DoctorInputs, seen: &mut Seen| {
        seen.corpus = Some(Ok(CorpusSeen { bytes: 1, digest: Some("d2".to_owned()) }))
    };
    is(&found("index", other), State::Bad, "of another corpus");
    let no_corpus = |inputs: &mut DoctorInputs, seen: &mut Seen| {
        inputs.corpus = None;
        seen.corpus = None;
    };
    is(&found("index", no_corpus), State::Good, "not compared");
    let neither = |inputs: &mut DoctorInputs, seen: &mut Seen| {
        no_corpus(inputs, seen);
        (inputs.index, seen.index) = (None, None);
    };
    is(&found("index", neither), State::Good, "built from the corpus");
}

#[test]
fn a_terminal_without_utf8_is_noted_only_where_something_is_drawn() {
    is(&found("terminal", |_, seen| seen.terminal.has_utf8 = false), State::Note, "UTF-8");
    let plain = |_: &mut DoctorInputs, seen: &mut Seen| {
        seen.terminal.has_utf8 = false;
        seen.terminal.mode = WatchMode::Plain;
    };
    is(&found("terminal", plain), State::Good, "plain lines");
}
