//! How processes of a run find each other: the first one listens at an address that all were told, the others call there, say who
//! they are and what they were started with, and are taken when all of it agrees. One that does not agree ends the run for all,
//! with the difference; whoever says nothing sensible is not spoken with.
//!
//! It refuses to know what is compared. Nothing here is secret, and nobody is proven to be who they say: the network between the
//! processes must be one that only the run's owner uses.

use super::line::{Hear, Line, News, peer};
use super::message::{HELLO_BYTES_MAX, Hello, Message, Over, OverKind};
use crate::error::TrainingError;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Between two looks for a caller, or two calls.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A caller says who it is within this time.
const GREETED_WITHIN: Duration = Duration::from_secs(10);
/// One call takes no longer.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Callers who have not said who they are, at most; more are let go.
const CALLERS_MAX: usize = 128;

/// Which process this is, of how many, and where they meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// Its rank, from 0.
    pub rank: usize,
    /// How many processes there are.
    pub ranks: usize,
    /// The name or number of the first one's machine.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// How long they wait for each other.
    pub wait: Duration,
}

/// Who hears what is heard of another rank beside its answers.
pub type Watch = Arc<dyn Fn(usize, News) + Send + Sync>;

impl World {
    fn place(&self) -> String {
        format!("the meeting of ranks at {}:{}", self.host, self.port)
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>, TrainingError> {
        let found = (self.host.as_str(), self.port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) => {
                Err(peer(&self.place(), "MASTER_ADDR has no address; give the number of rank 0's machine".to_owned()))
            }
            Err(error) => Err(peer(
                &self.place(),
                format!("MASTER_ADDR is not known here: {error}; give the number of rank 0's machine"),
            )),
        }
    }

    fn looks(&self) -> u128 {
        self.wait.as_millis().div_ceil(LOOK_EVERY.as_millis()).max(1)
    }
}

/// The first process, before the others are there. Those who call wait until it gathers them.
#[derive(Debug)]
pub struct Listening {
    world: World,
    listener: TcpListener,
    version: &'static str,
}

impl Listening {
    /// Listens where all were told, and nowhere else.
    ///
    /// # Errors
    /// An address that is not one of this machine, or that somebody else has.
    pub fn bind(world: World, version: &'static str) -> Result<Self, TrainingError> {
        let addresses = world.addresses()?;
        let listener = TcpListener::bind(addresses.as_slice()).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(|error| {
            let cure = match error.kind() {
                ErrorKind::AddrInUse => "somebody listens there already; give another MASTER_PORT to all processes",
                _ => "MASTER_ADDR must be an address of the machine of rank 0, and this is rank 0",
            };
            peer(&world.place(), format!("cannot listen: {error}; {cure}"))
        })?;
        Ok(Self { world, listener, version })
    }

    /// Waits for all other ranks. `agree` says what is wrong with what one was started with, if anything is.
    ///
    /// # Errors
    /// One that does not agree, that came twice, that left again, or that did not come in time; all who are there are told.
    pub fn gather(
        &self,
        agree: &dyn Fn(usize, &str) -> Result<(), String>,
        watch: &Watch,
    ) -> Result<Peers, TrainingError> {
        let mut lines: Vec<Option<Arc<Line>>> = vec![None; self.world.ranks];
        let gathered = self.gathered(&mut lines, agree, watch);
        let peers = Peers { lines: lines.into_iter().flatten().collect() };
        if let Err(error) = gathered {
            peers.close(&Over { kind: OverKind::Failed, why: error.to_string() });
            return Err(error);
        }
        Ok(peers)
    }

    fn gathered(
        &self,
        lines: &mut [Option<Arc<Line>>],
        agree: &dyn Fn(usize, &str) -> Result<(), String>,
        watch: &Watch,
    ) -> Result<(), TrainingError> {
        let (sender, callers) = sync_channel(CALLERS_MAX);
        // As many are being greeted as have a token, but for this one.
        let token = Arc::new(());
        for _ in 0..self.world.looks() {
            self.answer_calls(&sender, &token)?;
            self.take(&callers, lines, agree, watch)?;
            if lines.iter().skip(1).all(Option::is_some) {
                return Ok(());
            }
            if let Some((line, why)) = lines.iter().flatten().find_map(|line| Some((line, line.gone()?))) {
                return Err(peer(line.who(), why.to_owned()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let missing: Vec<String> =
            (1..lines.len()).filter(|rank| lines[*rank].is_none()).map(|rank| rank.to_string()).collect();
        let (ranks, came) = (self.world.ranks, self.world.ranks - missing.len());
        let problem = format!(
            "expected {ranks} processes within {} s, got {came}; rank {} did not come: start it with the same MASTER_ADDR and \
             MASTER_PORT, or wait longer with --wait-s",
            self.world.wait.as_secs(),
            missing.join(", ")
        );
        Err(peer(&self.world.place(), problem))
    }

    /// Lets all who call say who they are, each on a thread of its own: one that says nothing keeps nobody waiting.
    fn answer_calls(&self, sender: &SyncSender<(TcpStream, Hello)>, token: &Arc<()>) -> Result<(), TrainingError> {
        loop {
            let (stream, address) = match self.listener.accept() {
                Ok(caller) => caller,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // A caller who has hung up before it was answered.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => continue,
                Err(error) => return Err(peer(&self.world.place(), format!("cannot take calls: {error}"))),
            };
            if Arc::strong_count(token) > CALLERS_MAX {
                continue;
            }
            let (sender, token) = (sender.clone(), Arc::clone(token));
            let greeted = move || {
                if let Ok(hello) = greeting(&stream) {
                    let _nobody_waits_any_more = sender.try_send((stream, hello));
                }
                drop(token);
            };
            let started = std::thread::Builder::new().name(format!("caller-{address}")).spawn(greeted);
            started.map_err(|error| peer(&self.world.place(), format!("the system gives no thread: {error}")))?;
        }
    }

    fn take(
        &self,
        callers: &Receiver<(TcpStream, Hello)>,
        lines: &mut [Option<Arc<Line>>],
        agree: &dyn Fn(usize, &str) -> Result<(), String>,
        watch: &Watch,
    ) -> Result<(), TrainingError> {
        while let Ok((stream, hello)) = callers.try_recv() {
            let address = stream.peer_addr().map_or_else(|_| "somewhere".to_owned(), |address| address.to_string());
            let who = format!("rank {} at {address}", hello.rank);
            let taken: Vec<bool> = lines.iter().map(Option::is_some).collect();
            let judged = judge(&hello, &taken, self.version).and_then(|()| agree(hello.rank, &hello.described));
            if let Err(why) = judged {
                let _may_have_hung_up = say(&stream, &Message::Refused(why.clone()));
                return Err(peer(&who, why));
            }
            let (rank, watch) = (hello.rank, Arc::clone(watch));
            say(&stream, &Message::Welcome).map_err(|error| peer(&who, format!("has hung up: {error}")))?;
            let hear: Hear = Box::new(move |news| watch(rank, news));
            lines[rank] = Some(Line::start(stream, who, hear)?);
        }
        Ok(())
    }
}

/// What is wrong with a caller, whatever it was started with.
fn judge(hello: &Hello, taken: &[bool], version: &str) -> Result<(), String> {
    let (rank, ranks) = (hello.rank, taken.len());
    if hello.version != version {
        return Err(format!("expected legwork {version}, got {}; start the same program everywhere", hello.version));
    }
    if hello.ranks != ranks {
        return Err(format!(
            "expected WORLD_SIZE {ranks} as rank 0 has it, got {}; give all processes the same",
            hello.ranks
        ));
    }
    match taken.get(rank) {
        Some(false) if rank > 0 => Ok(()),
        Some(_) => {
            Err(format!("expected one process of each rank, got a second of rank {rank}; give each its own RANK"))
        }
        None => Err(format!("expected a RANK below {ranks}, got {rank}")),
    }
}

fn greeting(stream: &TcpStream) -> io::Result<Hello> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETED_WITHIN))?;
    match Message::read(&mut &*stream, HELLO_BYTES_MAX)? {
        Message::Hello(hello) => Ok(hello),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

fn say(mut stream: &TcpStream, message: &Message) -> io::Result<()> {
    stream.write_all(&message.to_bytes()?)
}

/// The other processes, as the first one has them.
#[derive(Clone, Debug)]
pub struct Peers {
    lines: Vec<Arc<Line>>,
}

impl Peers {
    /// Their connections, from rank 1.
    pub fn lines(&self) -> &[Arc<Line>] {
        &self.lines
    }

    /// Tells all of them that the run is over.
    pub fn close(&self, over: &Over) {
        std::thread::scope(|scope| {
            for line in &self.lines {
                scope.spawn(move || line.close(over));
            }
        });
    }
}

/// Calls the first process until it answers, and is taken by it.
///
/// # Errors
/// Nobody who answers in time, or one who does not take it, and why.
pub fn join(world: &World, version: &str, described: String, hear: Watch) -> Result<Arc<Line>, TrainingError> {
    let stream = call(world)?;
    let who = format!("rank 0 at {}:{}", world.host, world.port);
    let hello = Hello { version: version.to_owned(), rank: world.rank, ranks: world.ranks, described };
    let greeted = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(world.wait))).and_then(|()| {
        say(&stream, &Message::Hello(hello))?;
        Message::read(&mut &stream, HELLO_BYTES_MAX)
    });
    match greeted {
        Ok(Message::Welcome) => Line::start(stream, who, Box::new(move |news| hear(0, news))),
        Ok(Message::Refused(why)) => Err(peer(&who, format!("it does not take rank {}: {why}", world.rank))),
        Ok(other) => Err(peer(&who, format!("expected a welcome, got {}; is another program there?", other.name()))),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            let wait = world.wait.as_secs();
            Err(peer(
                &who,
                format!("it was not ready within {wait} s; wait longer with --wait-s, or look what it is at"),
            ))
        }
        Err(error) => Err(peer(
            &who,
            format!(
                "it ended before it took this rank ({error}); its own output says why, unless another program is there"
            ),
        )),
    }
}

/// Calls until somebody answers. Each look and each call that got no answer counts as long as it may have taken.
fn call(world: &World) -> Result<TcpStream, TrainingError> {
    let mut waited = Duration::ZERO;
    loop {
        let mut last = None;
        match world.addresses() {
            Ok(addresses) => {
                for address in addresses {
                    match TcpStream::connect_timeout(&address, CALL_MAX.min(world.wait)) {
                        Ok(stream) => return Ok(stream),
                        Err(error) => {
                            waited += if error.kind() == ErrorKind::TimedOut { CALL_MAX } else { Duration::ZERO };
                            last = Some(error.to_string());
                        }
                    }
                }
            }
            Err(error) => last = Some(error.to_string()),
        }
        if waited >= world.wait {
            let problem = format!(
                "expected rank 0 to listen within {} s, got none ({}); start it, or correct MASTER_ADDR and MASTER_PORT",
                world.wait.as_secs(),
                last.unwrap_or_default()
            );
            return Err(peer(&world.place(), problem));
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}

#[cfg(test)]
mod tests;
