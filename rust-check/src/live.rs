//! Real sockets: hear an engine as a router does, and be heard as an engine is (feature `live`).
//!
//! Over the pure-Rust `zeromq` crate, which routers use. Everything here blocks, with a deadline; the
//! sockets are read and written by a thread of their own. So none of it is for code that runs on an
//! async runtime itself, for which `parse_frames` on whatever its own socket received is all it
//! takes.
//!
//! ```
//! use std::time::Duration;
//!
//! use loadwire_check::live::{Listener, Publisher};
//! use loadwire_check::LoadStat;
//!
//! let wait = Duration::from_secs(5);
//! let mut publisher = Publisher::bind("tcp://127.0.0.1:0")?;
//! let mut listener = Listener::connect(publisher.endpoint())?;
//! assert!(publisher.wait_for_subscribers(1, wait));
//!
//! let stat = LoadStat {
//!     num_running_reqs: 7,
//!     num_waiting_reqs: 3,
//!     num_tokens: 1024,
//!     max_total_num_tokens: 8192,
//!     attn_dp_rank: Some(0),
//!     rev2: None,
//! };
//! publisher.publish(&stat)?;
//! publisher.send(&[b"load", b"no sequence", b""])?;
//!
//! let heard = listener.receive(wait).expect("the reading");
//! assert_eq!(heard.message.map(|message| message.stat), Ok(stat));
//! let heard = listener.receive(wait).expect("what is no message");
//! assert_eq!(heard.message.unwrap_err().rule(), "F3");
//! # Ok::<(), loadwire_check::live::LiveError>(())
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep_until, timeout, Instant};
use zeromq::{
    Endpoint, Socket, SocketEvent, SocketOptions, SocketRecv, SocketSend, SubSocket, XPubSocket,
    ZmqMessage,
};

use crate::frames::{build_frames, parse_frames_as, Message, TOPIC};
use crate::refusal::Refusal;
use crate::stat::{LoadStat, Revision};

/// How many messages wait to be read before the socket is left alone (rule K1).
const HIGH_WATER_MARK: usize = 8;

/// How long one attempt to connect may take at first, and at most. The time doubles with each attempt
/// that fails: a restarted engine is found at once, and one that is far away is reached as well.
const PATIENCE: Duration = Duration::from_millis(100);
const MOST_PATIENCE: Duration = Duration::from_secs(2);

/// The least time between two attempts, whatever a peer does.
const BREATH: Duration = Duration::from_millis(20);

/// How long a subscriber that does not read may keep a message from being sent.
const SEND: Duration = Duration::from_secs(1);

/// A socket that cannot be used as asked. The text says which, and why.
#[derive(Debug)]
pub struct LiveError {
    text: String,
}

impl LiveError {
    fn new(what: &str, why: impl fmt::Display) -> Self {
        Self { text: format!("{what}: {why}") }
    }
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LiveError {}

/// What came in.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The frames as they came.
    pub frames: Vec<Vec<u8>>,
    /// What they are.
    pub message: Result<Message, Refusal>,
}

/// A subscription to one rank of one engine.
///
/// It survives everything (rules C5, C7): bad messages are heard as such, and a connection that is
/// lost, refused or broken is made again, however often and however long it takes. Unlike a bare
/// `zeromq::SubSocket`, which waits twice as long after each failure, up to 30 s, it never waits much
/// longer than [a second or two](Self::receive).
#[derive(Debug)]
pub struct Listener {
    endpoint: String,
    revision: Revision,
    messages: mpsc::Receiver<ZmqMessage>,
    connections: Arc<AtomicU64>,
    thread: Thread,
}

impl Listener {
    /// Subscribes to `load` at an endpoint such as `tcp://10.0.0.5:5558`. Returns at once, whether
    /// anybody is there or not.
    ///
    /// # Errors
    ///
    /// It is no endpoint, or the system has no thread to spare.
    pub fn connect(endpoint: &str) -> Result<Self, LiveError> {
        valid(endpoint)?;
        let thread = Thread::start(endpoint)?;
        let (sender, messages) = mpsc::channel(HIGH_WATER_MARK);
        let connections = Arc::new(AtomicU64::new(0));
        thread.runtime().spawn(read(endpoint.to_owned(), sender, connections.clone()));
        let endpoint = endpoint.to_owned();
        Ok(Self { endpoint, revision: Revision::LATEST, messages, connections, thread })
    }

    /// Reads as a reader of `revision`; the newest one unless said.
    #[must_use]
    pub fn revision(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// What it is connected to, or tries to be.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How often it was connected so far: more than once after a restart of the engine.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The next message, good or bad, or `None` when none came in time.
    pub fn receive(&mut self, wait: Duration) -> Option<Heard> {
        let Self { messages, thread, revision, .. } = self;
        let received = async { timeout(wait, messages.recv()).await.ok().flatten() };
        let message = thread.runtime().block_on(received)?;
        let frames: Vec<Vec<u8>> = message.iter().map(|frame| frame.to_vec()).collect();
        Some(Heard { message: parse_frames_as(&frames, *revision), frames })
    }
}

/// Connects, reads until the connection is lost, and starts over, until nobody wants to hear.
async fn read(endpoint: String, sender: mpsc::Sender<ZmqMessage>, connections: Arc<AtomicU64>) {
    let mut patience = PATIENCE;
    loop {
        let started = Instant::now();
        match subscribe(&endpoint, patience).await {
            Ok(subscribed) => {
                connections.fetch_add(1, Ordering::Relaxed);
                patience = PATIENCE;
                if !forward(subscribed, &sender).await {
                    return;
                }
                sleep_until(started + BREATH).await;
            }
            Err(_) => {
                // Who refuses takes all of that time; a peer that is no publisher takes none.
                tokio::select! {
                    () = sleep_until(started + patience) => {}
                    () = sender.closed() => return,
                }
                patience = MOST_PATIENCE.min(patience * 2);
            }
        }
    }
}

/// A socket, and what becomes of its connection.
struct Subscribed<Events> {
    socket: SubSocket,
    events: Events,
}

/// A fresh socket for each connection: the crate's own way to connect again cannot be hurried, and
/// one attempt of it that is never answered is its last.
async fn subscribe(
    endpoint: &str,
    patience: Duration,
) -> zeromq::ZmqResult<Subscribed<impl futures_util::Stream<Item = SocketEvent> + Unpin>> {
    let mut options = SocketOptions::default();
    options.connect_timeout(patience);
    let mut socket = SubSocket::with_options(options);
    let events = socket.monitor();
    socket.subscribe("load").await?;
    socket.connect(endpoint).await?;
    Ok(Subscribed { socket, events })
}

/// Hands on messages until the connection is lost; whether anybody still wants them.
async fn forward(
    mut subscribed: Subscribed<impl futures_util::Stream<Item = SocketEvent> + Unpin>,
    sender: &mpsc::Sender<ZmqMessage>,
) -> bool {
    loop {
        tokio::select! {
            // What came before the end is read before the end is believed.
            biased;
            () = sender.closed() => return false,
            received = subscribed.socket.recv() => match received {
                Ok(message) => if sender.send(message).await.is_err() {
                    return false;
                },
                Err(_) => return true,
            },
            event = subscribed.events.next() => match event {
                None | Some(SocketEvent::Disconnected(_)) => return true,
                Some(_) => {}
            },
        }
    }
}

/// The load socket of a fake engine.
///
/// It is an XPUB socket, which sends the same bytes as the PUB socket of an engine and shows who
/// subscribes. The `zeromq` crate has no high-water mark to set (rule K1), so it drops nothing; one
/// subscriber that does not read holds up all others, for a second with each message.
#[derive(Debug)]
pub struct Publisher {
    endpoint: String,
    sequence: u64,
    outgoing: mpsc::Sender<(ZmqMessage, oneshot::Sender<Result<(), String>>)>,
    subscriptions: watch::Receiver<u64>,
    thread: Thread,
}

impl Publisher {
    /// Binds an endpoint such as `tcp://127.0.0.1:0`, where port 0 is one that the system picks.
    ///
    /// # Errors
    ///
    /// It is no endpoint, or cannot be bound.
    pub fn bind(endpoint: &str) -> Result<Self, LiveError> {
        valid(endpoint)?;
        let thread = Thread::start(endpoint)?;
        let mut socket = XPubSocket::new();
        let bound = thread.runtime().block_on(socket.bind(endpoint));
        let bound = bound.map_err(|why| LiveError::new(endpoint, why))?;
        let (outgoing, requests) = mpsc::channel(1);
        let (counted, subscriptions) = watch::channel(0);
        thread.runtime().spawn(serve(socket, requests, counted));
        Ok(Self { endpoint: bound.to_string(), sequence: 0, outgoing, subscriptions, thread })
    }

    /// What is bound, with the port that the system picked.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The number of the next message (rule S1).
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether that many subscriptions to `load` have come in so far, or do in time. One that is in
    /// place misses nothing that is published afterwards.
    pub fn wait_for_subscribers(&mut self, count: u64, wait: Duration) -> bool {
        let Self { subscriptions, thread, .. } = self;
        let seen = async {
            timeout(wait, subscriptions.wait_for(|seen| *seen >= count))
                .await
                .is_ok_and(|r| r.is_ok())
        };
        thread.runtime().block_on(seen)
    }

    /// Publishes a reading as an engine does, and gives its number.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send). The number is spent all the same (rule S1).
    pub fn publish(&mut self, stat: &LoadStat) -> Result<u64, LiveError> {
        let sequence = self.sequence;
        let frames = build_frames(sequence, stat).map_err(|why| LiveError::new("sequence", why))?;
        self.sequence += 1;
        self.send(&frames.as_slices())?;
        Ok(sequence)
    }

    /// Sends exactly these frames, legal or not. Takes no number.
    ///
    /// # Errors
    ///
    /// There is no frame, or a subscriber kept them from being sent for a second.
    pub fn send(&mut self, frames: &[&[u8]]) -> Result<(), LiveError> {
        let mut frames = frames.iter().map(|frame| frame.to_vec());
        let first = frames.next();
        let first = first.ok_or_else(|| LiveError::new(&self.endpoint, "a message has a frame"))?;
        let mut message = ZmqMessage::from(first);
        for frame in frames {
            message.push_back(frame.into());
        }
        let (done, told) = oneshot::channel();
        let sent = self.thread.runtime().block_on(async {
            let gone = |_| "the socket is gone".to_owned();
            self.outgoing.send((message, done)).await.map_err(|_| gone(()))?;
            told.await.map_err(|_| gone(()))?
        });
        sent.map_err(|why| LiveError::new(&self.endpoint, why))
    }
}

/// Takes note of subscriptions, which the socket does not without being asked, and sends.
async fn serve(
    mut socket: XPubSocket,
    mut requests: mpsc::Receiver<(ZmqMessage, oneshot::Sender<Result<(), String>>)>,
    counted: watch::Sender<u64>,
) {
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some((message, done)) = request else { return };
                let sent = match timeout(SEND, socket.send(message)).await {
                    Ok(sent) => sent.map_err(|why| why.to_string()),
                    Err(_) => Err("a subscriber does not read".to_owned()),
                };
                let _ = done.send(sent); // who asked may have gone
            }
            received = socket.recv() => {
                // An error is a subscriber that left.
                let subscribed = received.is_ok_and(|message| {
                    message.get(0).and_then(|frame| frame.split_first()).is_some_and(
                        |(kind, topic)| *kind == 1 && TOPIC.starts_with(topic),
                    )
                });
                counted.send_modify(|seen| *seen += u64::from(subscribed));
            }
        }
    }
}

fn valid(endpoint: &str) -> Result<(), LiveError> {
    let parsed: Result<Endpoint, _> = endpoint.parse();
    parsed.map(drop).map_err(|why| LiveError::new(endpoint, why))
}

/// The thread that drives one socket. When it is dropped, it is not waited for: a name that is being
/// looked up can take as long as it likes.
struct Thread {
    runtime: Option<Runtime>,
}

impl Thread {
    fn start(endpoint: &str) -> Result<Self, LiveError> {
        let mut builder = Builder::new_multi_thread();
        let built = builder.worker_threads(1).thread_name("loadwire-live").enable_all().build();
        let runtime = built.map_err(|why| LiveError::new(endpoint, why))?;
        Ok(Self { runtime: Some(runtime) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken in drop only")
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thread")
    }
}
