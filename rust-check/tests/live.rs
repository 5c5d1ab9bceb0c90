//! Both ends of a load socket in this process. Against Python they are tested from Python.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use loadwire_check::live::{Listener, Publisher};
use loadwire_check::table::FRAMES;
use loadwire_check::{parse_frames, LoadStat, Revision};

/// How long anything may take.
const WAIT: Duration = Duration::from_secs(20);

fn reading(running: u64) -> LoadStat {
    LoadStat {
        num_running_reqs: running,
        num_waiting_reqs: 3,
        num_tokens: 1024,
        max_total_num_tokens: 8192,
        attn_dp_rank: Some(2),
        rev2: None,
    }
}

fn pair() -> (Publisher, Listener) {
    let mut publisher = Publisher::bind("tcp://127.0.0.1:0").expect("a port");
    let listener = Listener::connect(publisher.endpoint()).expect("an endpoint");
    assert!(publisher.wait_for_subscribers(1, WAIT));
    (publisher, listener)
}

/// The first message behind the barrier arrives, and every one after it, in order and numbered.
#[test]
fn every_message_arrives() {
    let (mut publisher, mut listener) = pair();
    for number in 0..1000 {
        assert_eq!(publisher.sequence(), number);
        assert_eq!(publisher.publish(&reading(number)).expect("sent"), number);
        let message = listener.receive(WAIT).expect("a message").message.expect("a good one");
        assert_eq!((message.sequence, message.stat), (number, reading(number)));
    }
    assert_eq!(listener.connections(), 1);
    assert_eq!(listener.endpoint(), publisher.endpoint());
}

/// Whatever is sent is heard as it is, with what is wrong with it, and what follows is heard too.
#[test]
fn bad_messages_are_heard() {
    let (mut publisher, mut listener) = pair();
    for vector in FRAMES.iter().filter(|v| v.frames.first().is_some_and(|f| f.starts_with(b"load")))
    {
        publisher.send(vector.frames).expect("sent");
        let heard = listener.receive(WAIT).expect(vector.id);
        assert_eq!(heard.frames, vector.frames, "{}", vector.id);
        assert_eq!(heard.message, parse_frames(vector.frames), "{}", vector.id);
    }
    assert!(publisher.send(&[]).is_err());
}

/// A listener of revision 1 reads revision 1.
#[test]
fn an_older_reader_is_one() {
    let (mut publisher, listener) = pair();
    let mut listener = listener.revision(Revision::V1);
    let newer = FRAMES.iter().find(|v| v.engine == Some(Revision::V2)).expect("a newer message");
    publisher.send(newer.frames).expect("sent");
    let message = listener.receive(WAIT).expect("a message").message.expect("a good one");
    assert_eq!(message.stat.revision(), Revision::V1);
}

/// A wait ends in time when nothing comes, whether anybody is there or not.
#[test]
fn waits_end() {
    let short = Duration::from_millis(50);
    let (_publisher, mut listener) = pair();
    let started = Instant::now();
    assert!(listener.receive(short).is_none());
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
    let mut listener = Listener::connect(&format!("tcp://{nobody}")).expect("an endpoint");
    assert!(listener.receive(short).is_none());
    assert_eq!(listener.connections(), 0);
    let mut lonely = Publisher::bind("tcp://127.0.0.1:0").expect("a port");
    assert!(lonely.wait_for_subscribers(0, Duration::ZERO));
    assert!(!lonely.wait_for_subscribers(1, short));
    assert!(started.elapsed() < WAIT);
}

/// A peer that accepts and never says a word is given up, and the engine that follows is read.
#[test]
fn a_peer_that_hangs_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("tcp://{}", silent.local_addr().expect("an address"));
    let mut listener = Listener::connect(&endpoint).expect("an endpoint");
    let started = Instant::now();
    let _held = [silent.accept().expect("one attempt"), silent.accept().expect("and another")];
    assert!(started.elapsed() < WAIT, "an attempt took {:?}", started.elapsed());
    drop(silent);
    let mut publisher = Publisher::bind(&endpoint).expect("the same port");
    assert!(publisher.wait_for_subscribers(1, WAIT));
    publisher.publish(&reading(7)).expect("sent");
    assert_eq!(listener.receive(WAIT).expect("a message").message.map(|m| m.stat), Ok(reading(7)));
}

/// An engine that restarts on its port is heard again, each time from sequence 0 (rule C7).
#[test]
fn restarts_are_survived() {
    let (mut publisher, mut listener) = pair();
    let endpoint = publisher.endpoint().to_owned();
    for run in 0..20 {
        if run > 0 {
            drop(publisher);
            publisher = rebound(&endpoint);
            assert!(publisher.wait_for_subscribers(1, WAIT));
        }
        publisher.publish(&reading(run)).expect("sent");
        let message = listener.receive(WAIT).expect("a message").message.expect("a good one");
        assert_eq!((message.sequence, message.stat), (0, reading(run)));
    }
    assert_eq!(listener.connections(), 20);
}

/// A dropped publisher lets go of its port from a thread of its own, soon.
fn rebound(endpoint: &str) -> Publisher {
    let started = Instant::now();
    loop {
        match Publisher::bind(endpoint) {
            Ok(publisher) => return publisher,
            Err(why) => assert!(started.elapsed() < WAIT, "{why}"),
        }
        std::thread::yield_now();
    }
}

/// What is no endpoint, or a port that is taken, is refused with the text of it.
#[test]
fn what_cannot_be_used_is_told() {
    for endpoint in ["", "tcp://", "127.0.0.1:1", "tcp://127.0.0.1", "udp://127.0.0.1:1"] {
        let error = Listener::connect(endpoint).expect_err(endpoint).to_string();
        assert!(error.starts_with(&format!("{endpoint}: ")), "{error}");
        assert!(Publisher::bind(endpoint).is_err());
    }
    let (publisher, _listener) = pair();
    let error = Publisher::bind(publisher.endpoint()).expect_err("taken").to_string();
    assert!(error.starts_with(publisher.endpoint()), "{error}");
}
