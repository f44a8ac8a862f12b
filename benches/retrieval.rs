//! Retrieval throughput: 100,000 synthetic documents, 384-value vectors, 16 concurrent callers, exact search.
//!
//! Prints a Markdown table: hybrid, words alone, vectors alone, each with callers on their own and behind one
//! batching thread (as the retriever actor batches), the floor that memory sets, and the peers bm25s and faiss
//! in the same run. The peers need a Python with both: `LEGWORK_PEER_PYTHON`, else `python3`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a measuring program")]

use legwork_retrieval::bm25::Bm25Params;
use legwork_retrieval::corpus::{Corpus, Format};
use legwork_retrieval::fusion::FusionSettings;
use legwork_retrieval::index::{BuildSettings, OpenSettings};
use legwork_retrieval::searcher::SearchSettings;
use legwork_retrieval::{Answer, Index, Mode, Query, Searcher};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const DOCUMENTS: usize = 100_000;
/// Lengths are uniform from half to one and a half of this.
const WORDS_A_DOCUMENT: usize = 300;
const VOCABULARY: usize = 300_000;
const ZIPF_EXPONENT: f64 = 1.05;
/// The most frequent words of a language are stop words; queries are drawn from the others.
const STOP_RANKS: usize = 33;
const WORDS_A_QUERY: usize = 8;
const QUERIES: usize = 2_000;
const DIM: usize = 384;
const CALLERS: usize = 16;
const THREADS: usize = 2;
/// What a search server is asked for.
const K: usize = 50;
const MEASURE: Duration = Duration::from_secs(8);

fn main() {
    let folder = tempfile::tempdir().unwrap();
    eprintln!("writing {DOCUMENTS} documents");
    let vocabulary = Vocabulary::new();
    let (queries, text_bytes) = write_data(folder.path(), &vocabulary);
    let started = Instant::now();
    let corpus = Corpus::with_format(&folder.path().join("corpus.jsonl"), Format::Jsonl);
    let build = BuildSettings::new(Bm25Params::ANSERINI, THREADS);
    let mut index = Index::build(&corpus, &folder.path().join("index"), &build, &mut |_| {}).unwrap();
    let built = started.elapsed();
    let started = Instant::now();
    index.import_vectors(&folder.path().join("vectors.npy"), None, None).unwrap();
    let imported = started.elapsed();
    let build_peak_mib = peak_mib();
    let index_folder = index.folder().to_owned();
    drop(index);
    let started = Instant::now();
    let index = Arc::new(Index::open(&index_folder, &OpenSettings::default()).unwrap());
    let opened = started.elapsed();

    println!("# Retrieval\n");
    println!(
        "{DOCUMENTS} synthetic documents (Zipf vocabulary of {VOCABULARY}, exponent {ZIPF_EXPONENT}, {WORDS_A_DOCUMENT} words \
         each on average, {:.0} MB of text), vectors of {DIM} values, {WORDS_A_QUERY} words a query (stop ranks left out), \
         k = {K}, fusion of 100 + 100, {CALLERS} callers, {} logical processors ({}), load of the machine when it began: {}. CPU time counts all threads, \
         so it holds on a busy machine too.\n",
        text_bytes as f64 / 1e6,
        std::thread::available_parallelism().unwrap(),
        processor(),
        fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or("unknown"),
    );
    println!("| step | s |\n|---|---|");
    println!(
        "| build (digest, words, store; {THREADS} threads), peak {build_peak_mib} MiB | {:.1} |",
        built.as_secs_f64()
    );
    println!("| import of vectors from .npy | {:.1} |", imported.as_secs_f64());
    println!("| open, every vector checked | {:.2} |\n", opened.as_secs_f64());

    println!("| what | queries/s | p50 ms | p99 ms | CPU ms a query |\n|---|---|---|---|---|");
    for (mode, name) in [(Mode::Hybrid, "hybrid"), (Mode::Bm25, "bm25"), (Mode::Dense, "dense, exact")] {
        let settings = SearchSettings { mode, fusion: FusionSettings::default(), allow_degraded: false };
        let searcher = Searcher::new(Arc::clone(&index), settings, None).unwrap();
        let own = measure(&queries, |query| searcher.search(std::slice::from_ref(query), K).unwrap().pop().unwrap());
        row(&format!("{name}, each caller on its own"), &own);
        let batched = measure_batched(&searcher, &queries);
        row(&format!("{name}, callers batched"), &batched);
    }
    floor(&index);
    peers(folder.path(), &index, &queries);
}

/// The words of a made-up language, most frequent first, and their cumulated frequencies.
struct Vocabulary {
    words: Vec<String>,
    cumulated: Vec<f64>,
}

impl Vocabulary {
    fn new() -> Self {
        // No vowels and no s, so that stems are the words themselves and peers need no stemmer.
        const LETTERS: &[u8] = b"bcdfghjkmnpqrtvwxz";
        let word = |rank: usize| {
            let mut n = rank + LETTERS.len().pow(2);
            let mut word = String::new();
            while n > 0 {
                word.push(char::from(LETTERS[n % LETTERS.len()]));
                n /= LETTERS.len();
            }
            word
        };
        let mut sum = 0.0;
        let cumulated = (0..VOCABULARY).map(|rank| {
            sum += ((rank + 1) as f64).powf(-ZIPF_EXPONENT);
            sum
        });
        Self { cumulated: cumulated.collect(), words: (0..VOCABULARY).map(word).collect() }
    }

    fn draw(&self, random: &mut SplitMix) -> usize {
        let at = random.unit() * self.cumulated[VOCABULARY - 1];
        self.cumulated.partition_point(|&c| c <= at).min(VOCABULARY - 1)
    }
}

/// A small generator with a fixed seed: every run measures the same data.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A vector of length one, its direction uniform.
    fn direction(&mut self) -> Vec<f32> {
        let mut normal = || (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        let vector: Vec<f64> = (0..DIM).map(|_| normal()).collect();
        let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        vector.into_iter().map(|v| (v / length) as f32).collect()
    }
}

/// Writes corpus and vectors for this house and the peers; returns the queries and the bytes of text.
fn write_data(folder: &Path, vocabulary: &Vocabulary) -> (Vec<Query>, usize) {
    let mut random = SplitMix(7);
    let create = |name: &str| BufWriter::new(File::create(folder.join(name)).unwrap());
    let mut corpus = create("corpus.jsonl");
    let mut bytes = 0;
    for row in 0..DOCUMENTS {
        let length = WORDS_A_DOCUMENT / 2 + (random.next() as usize) % WORDS_A_DOCUMENT;
        let words: Vec<&str> = (0..length).map(|_| vocabulary.words[vocabulary.draw(&mut random)].as_str()).collect();
        let text = words.join(" ");
        bytes += text.len();
        writeln!(corpus, "{{\"docid\": \"{row}\", \"text\": \"{text}\"}}").unwrap();
    }
    corpus.flush().unwrap();
    let vectors = |name: &str, rows: usize, random: &mut SplitMix| -> Vec<Vec<f32>> {
        let mut file = create(name);
        let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {DIM}), }}");
        header.push_str(&" ".repeat(64 - (10 + header.len() + 1) % 64));
        header.push('\n');
        file.write_all(b"\x93NUMPY\x01\x00").unwrap();
        file.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        let all: Vec<Vec<f32>> = (0..rows).map(|_| random.direction()).collect();
        for value in all.iter().flatten() {
            file.write_all(&value.to_le_bytes()).unwrap();
        }
        file.flush().unwrap();
        all
    };
    drop(vectors("vectors.npy", DOCUMENTS, &mut random));
    let query_vectors = vectors("queries.npy", QUERIES, &mut random);
    let mut file = create("queries.txt");
    let mut queries = Vec::new();
    for vector in query_vectors {
        let mut words = Vec::new();
        while words.len() < WORDS_A_QUERY {
            let rank = vocabulary.draw(&mut random);
            if rank >= STOP_RANKS && !words.contains(&rank) {
                words.push(rank);
            }
        }
        let text = words.iter().map(|&rank| vocabulary.words[rank].as_str()).collect::<Vec<_>>().join(" ");
        writeln!(file, "{text}").unwrap();
        queries.push(Query { text, vector: Some(vector) });
    }
    file.flush().unwrap();
    (queries, bytes)
}

struct Measured {
    per_second: f64,
    cpu_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
}

fn row(name: &str, measured: &Measured) {
    let Measured { per_second, cpu_ms, p50_ms, p99_ms } = measured;
    println!("| {name} | {per_second:.0} | {p50_ms:.2} | {p99_ms:.2} | {cpu_ms:.2} |");
}

/// Sixteen callers, each asking one query after the other.
fn measure(queries: &[Query], ask: impl Fn(&Query) -> Answer + Sync) -> Measured {
    let next = AtomicUsize::new(0);
    let cpu_before = cpu_seconds();
    let started = Instant::now();
    let mut waits: Vec<Duration> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut waits = Vec::new();
                    while started.elapsed() < MEASURE {
                        let query = &queries[next.fetch_add(1, Ordering::Relaxed) % queries.len()];
                        let asked = Instant::now();
                        assert!(!ask(query).hits.is_empty());
                        waits.push(asked.elapsed());
                    }
                    waits
                })
            })
            .collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let elapsed = started.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let cpu_ms = (cpu_seconds() - cpu_before) * 1e3 / waits.len() as f64;
    Measured { per_second: waits.len() as f64 / elapsed, cpu_ms, p50_ms: at(0.5), p99_ms: at(0.99) }
}

/// The same, with one thread that takes whatever waits and asks it together.
fn measure_batched(searcher: &Searcher, queries: &[Query]) -> Measured {
    type Job = (Query, mpsc::Sender<Answer>);
    let (sender, receiver) = mpsc::channel::<Job>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Ok(first) = receiver.recv() {
                let (batch, replies): (Vec<Query>, Vec<_>) =
                    std::iter::once(first).chain(receiver.try_iter().take(CALLERS - 1)).unzip();
                for (answer, reply) in searcher.search(&batch, K).unwrap().into_iter().zip(replies) {
                    reply.send(answer).unwrap();
                }
            }
        });
        let measured = measure(queries, |query| {
            let (reply, answer) = mpsc::channel();
            sender.send((query.clone(), reply)).unwrap();
            answer.recv().unwrap()
        });
        drop(sender);
        measured
    })
}

/// How fast the matrix can be read at all, and what that allows.
fn floor(index: &Index) {
    let dense = index.dense().unwrap();
    let rows: Vec<&[f32]> = (0..index.len() as u32).map(|n| dense.vector(n).unwrap()).collect();
    let bytes = index.len() * DIM * size_of::<f32>();
    let read = || {
        std::thread::scope(|scope| {
            for part in rows.chunks(rows.len().div_ceil(THREADS)) {
                scope.spawn(|| {
                    let mut sums = [0_u32; 16];
                    for chunk in part.iter().flat_map(|row| row.chunks_exact(16)) {
                        for (sum, value) in sums.iter_mut().zip(chunk) {
                            *sum ^= value.to_bits();
                        }
                    }
                    std::hint::black_box(sums)
                });
            }
        });
    };
    read();
    let best = (0..10).map(|_| {
        let started = Instant::now();
        read();
        started.elapsed()
    });
    let seconds = best.min().unwrap().as_secs_f64();
    println!(
        "| floor: {:.0} MB of matrix read once for each query at {:.1} GB/s | {:.0} | {:.2} | | |",
        bytes as f64 / 1e6,
        bytes as f64 / seconds / 1e9,
        1.0 / seconds,
        seconds * 1e3
    );
    println!("| floor: read once for {CALLERS} queries | {:.0} | {:.2} | | |", CALLERS as f64 / seconds, seconds * 1e3);
}

/// bm25s and faiss over the same files, and how far their answers are ours.
fn peers(folder: &Path, index: &Arc<Index>, queries: &[Query]) {
    let python = std::env::var("LEGWORK_PEER_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    // The package that runs this may be the root or a member.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = [here.join("benches/peers/retrieval_peer.py"), here.join("../benches/peers/retrieval_peer.py")];
    let script = places.iter().find(|path| path.is_file()).unwrap();
    let arguments = [CALLERS, THREADS, K, MEASURE.as_secs() as usize].map(|n| n.to_string());
    let output = Command::new(&python).arg(script).arg(folder).args(arguments).output();
    let output = match output {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => return println!("\npeers skipped: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => return println!("\npeers skipped: {python}: {error}"),
    };
    let report: serde_json::Value = serde_json::from_slice(&output).unwrap();
    for peer in report["rates"].as_array().unwrap() {
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.2} |",
            peer["name"].as_str().unwrap(),
            peer["per_second"].as_f64().unwrap(),
            peer["p50_ms"].as_f64().unwrap(),
            peer["p99_ms"].as_f64().unwrap(),
            peer["cpu_ms"].as_f64().unwrap()
        );
    }
    let built = |key: &str| report[key].as_f64().unwrap();
    println!("\npeers built in {:.1} s (bm25s) and {:.2} s (faiss).", built("bm25s_build_s"), built("faiss_build_s"));
    for (name, mode) in [("bm25s", Mode::Bm25), ("faiss", Mode::Dense)] {
        let settings = SearchSettings { mode, fusion: FusionSettings::default(), allow_degraded: false };
        let searcher = Searcher::new(Arc::clone(index), settings, None).unwrap();
        let theirs = report[format!("{name}_top10")].as_array().unwrap();
        let ours = searcher.search(&queries[..theirs.len()], 10).unwrap();
        let mut shared = 0;
        for (ours, theirs) in ours.iter().zip(theirs) {
            let theirs: HashSet<String> = theirs.as_array().unwrap().iter().map(|row| row.to_string()).collect();
            shared += ours.hits.iter().filter(|hit| theirs.contains(&hit.docid)).count();
        }
        println!("top ten shared with {name}: {:.2} %.", shared as f64 * 10.0 / theirs.len() as f64);
    }
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

/// Seconds that all threads of this process have computed; zero where the system does not say.
fn cpu_seconds() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or("").split_whitespace();
    // User and system time are fields 14 and 15; the name, which may hold spaces, ends the second.
    fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() / TICKS_A_SECOND
}

/// The most memory that this process has held, mapped files included.
fn peak_mib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1024
}
